"""Contexts whose part is a text that a language model writes of what another context shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from palate.contexts.texts import Source, Text, Texts
from palate.prompts import Unreadable
from palate.records import Context, ContextInput, Gold, Part, QuestionView, Shown, User, UserPool
from palate.records.slates import PartKind


class Written(ABC):
    """Reads what an inner context shows, of the user or a stranger, and shows a text about it.

    Where the inner context shows nothing, or the text cannot be read, nothing is shown.
    """

    oracle = False
    blind = False
    kind: PartKind
    spec: str
    of: str
    draws: int
    texts: Texts
    _unread, _written = 0, 0

    @abstractmethod
    def inner(self, pool: UserPool) -> Context:
        """Return the context that is read."""

    @abstractmethod
    def source(self, view: QuestionView, shown: Shown) -> Source:
        """Return what the text is written from."""

    @abstractmethod
    def read(self, text: Text) -> str:
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
        own = len(text.split()) if self.of == "self" else inner.own_words
        return inner.model_copy(update={"parts": parts, "own_words": own})

    def notes(self) -> tuple[str, ...]:
        """Say how many texts could not be read."""
        if not self._unread:
            return ()
        return (f"{self.spec}: {self._unread} of {self._written} texts hold nothing to show",)

    def _sources(self, inputs: Iterable[ContextInput]) -> Iterator[Source]:
        for each in inputs:
            shown = self.inner(each.pool).shown(*each)
            if shown.parts:
                yield self.source(each.view, shown)

    def _readable(self, text: Text) -> str:
        if text.failure is not None:
            return ""
        try:
            return self.read(text)
        except Unreadable:
            return ""
