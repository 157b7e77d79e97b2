"""A language model that writes texts of users, greedily."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from palate.engines import LanguageModel, Reply
from palate.engines.language_model import Ids
from palate.prompts import fitting_parts
from palate.records import Message, Part, Settings
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec

Messages = tuple[Message, ...]
Parts = tuple[Part, ...]
MAX_TOKENS = 128
"""Tokens of a text, unless `?max_tokens=` says otherwise."""


class Writer(NamedTuple):
    """Who writes, and how many tokens at most."""

    model: LanguageModel
    max_tokens: int

    @property
    def fingerprint(self) -> str:
        """Hash of all that a text depends on beside the prompt."""
        thought = () if self.model.reader is None else self.model.reader.thought
        return digest(self.model.place, *self.model.identity, self.max_tokens, *thought)

    def fit(self, parts: Parts, prompt: Callable[[Parts], Messages]) -> Parts:
        """Drop whole parts, the lowest-ranked first, until prompt and reply fit the window."""
        window = self.model.window
        room = None if window is None else window - self.max_tokens
        if self.model.reader is None:
            return fitting_parts(parts, lambda some: 0, room)
        encode = self.model.reader.template.answer_prompt
        return fitting_parts(parts, lambda some: len(encode(prompt(some))), room)

    def write(self, prompts: Sequence[Messages]) -> Iterator[tuple[int, Reply]]:
        """Yield (position, reply) as they come; what all prompts begin with is read once."""
        reader, asked = self.model.reader, list[Messages | Ids](prompts)
        if reader is not None:  # it writes at once, without a thought
            asked = [reader.template.answer_prompt(prompt) for prompt in prompts]
        for _, k, reply in self.model.generate([asked], max_tokens=self.max_tokens):
            yield k, reply


def build_writer(
    spec: Spec, session: Session, settings: Settings, example: str, options: set[str]
) -> Writer:
    """Return who writes for this spec; refuses options that it does not know.

    `max_tokens` is among `options`, read with the default of its caller.
    """
    max_tokens = spec.number("max_tokens", MAX_TOKENS, least=1)
    return Writer(session.language_model(spec, settings, options, example), max_tokens)
