"""Texts that a language model wrote: each once, kept in memory and on disk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from palate.contexts.writers import Messages, Parts, Writer
from palate.engines import Reply
from palate.errors import EndpointError, ModelError
from palate.seeding import digest
from palate.stores import Documents, Store

LOG = logging.getLogger("palate")
Prompt = Callable[[str, Parts], Messages]


class TextSource(NamedTuple):
    """What a text is written from."""

    question: str
    """Empty where the text is about the user alone."""
    parts: Parts


class GeneratedText(NamedTuple):
    """A model's reply; or why there is none."""

    text: str = ""
    cut_off: bool = False
    failure: str | None = None


class TextCache:
    """Writes what is missing, all at once, and never twice.

    A text is kept in the store by the hash of who writes, of the template and of
    what was read, so a run that is finished loads no model for it.
    """

    def __init__(
        self, writer: Writer, prompt: Prompt, what: str, template: str, store: Store
    ) -> None:
        self.writer, self.prompt, self.what, self._store = writer, prompt, what, store
        self.fingerprint = digest(what, writer.fingerprint, template)
        self._known: dict[str, GeneratedText] = {}

    @property
    def _disk(self) -> Documents:
        return self._store.documents("texts")

    def of(self, source: TextSource) -> GeneratedText:
        """Return the text of this source, written now if it never was."""
        (text,) = self.of_all([source])
        return text

    def of_all(self, sources: Iterable[TextSource]) -> list[GeneratedText]:
        """Return the texts of the different sources among these; the missing are written at once.

        Raises:
            EndpointError: where an endpoint did not answer; what came is kept.
            ModelError: where not one text could be written.
        """
        keys: dict[str, None] = {}
        missing: dict[str, Messages] = {}
        for source in sources:
            key = self._key(source)
            if key in keys:
                continue
            keys[key] = None
            if key not in self._known and not self._recall(key):
                prompt = partial(self.prompt, source.question)
                if parts := self.writer.fit(source.parts, prompt):
                    missing[key] = prompt(parts)
                else:
                    self._keep(key, GeneratedText(failure="too long"))
        if missing:
            LOG.info("%s: %d texts to write", self.what, len(missing))
            self._write(list(missing), list(missing.values()))
        return [self._known[key] for key in keys]

    def _write(self, keys: list[str], prompts: list[Messages]) -> None:
        failed: dict[str, Reply] = {}
        for k, reply in self.writer.write(prompts):
            if reply.failure is None:
                self._keep(keys[k], GeneratedText(reply.text, reply.cut_off))
            else:
                failed[keys[k]] = reply
        reasons = "; ".join(sorted({str(reply.failure) for reply in failed.values()}))
        of_all = f"{self.what}: {len(failed)} of {len(keys)} texts were not written ({reasons})"
        if any(reply.outage for reply in failed.values()):
            raise EndpointError(f"{of_all}; what came is kept, run the same command again")
        if len(failed) == len(keys):
            raise ModelError(of_all)
        for key, reply in failed.items():
            self._keep(key, GeneratedText(failure=reply.failure))

    def _keep(self, key: str, text: GeneratedText) -> None:
        self._known[key] = text
        self._disk.put_json(key, text._asdict())

    def _recall(self, key: str) -> bool:
        there = self._disk.get_json(key)
        if there is None:
            return False
        self._known[key] = GeneratedText(**there)
        return True

    def _key(self, source: TextSource) -> str:
        read = [(part.kind, part.category, part.text, part.rank) for part in source.parts]
        return digest(self.fingerprint, source.question, read)
