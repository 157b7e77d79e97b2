"""A measure of quality by a function of question and answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from palate.quality import QualityScore, QuestionResponse
from palate.records import Question


class Planted:
    """Rates what a function of question and answer says, and remembers what it rated."""

    needs, details = (), {}

    def __init__(
        self, spec: str, value: Callable[[Question, str], float], *, surrogate: bool = False
    ) -> None:
        self.spec, self.fingerprint, self.value, self.surrogate = spec, spec, value, surrogate
        self.rated: list[tuple[str, str]] = []

    def check(self, rows: Sequence[Question]) -> None:
        """Any row will do."""

    def rate(self, items: Sequence[QuestionResponse]) -> Iterator[tuple[int, QualityScore]]:
        for k, (question, text) in enumerate(items):
            self.rated.append((question.id, text))
            yield k, self.unread(text) or QualityScore(value=self.value(question, text))

    def unread(self, text: str) -> QualityScore | None:
        """Return why the latest answer is not rated."""
