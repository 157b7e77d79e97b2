"""The protocol of a measure of quality: its input, its output, and what it must offer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

from pydantic import Field, model_validator

from palate.records import Question, Record

Need = Literal["aspects", "reference"]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class QuestionResponse(NamedTuple):
    """A response to the question of a row; the row's gold may be read, for this is no scorer.

    A pair's `chosen` and `rejected` play no part.
    """

    question: Question
    response: str


class QualityScore(Record):
    """The quality of one response; or None, which is unscored, and why.

    >>> QualityScore(value=0.75, aspects=(1.0, 0.5)).value
    0.75
    """

    value: Share | None
    """From 0 (worst) to 1 (best)."""
    aspects: tuple[Share | None, ...] = ()
    """One value per rubric aspect, in the row's order; empty for measures that read none."""
    reason: str | None = None
    """Why there is no value, or what is unusual about it."""
    raw: tuple[str | None, ...] = ()
    """The raw replies behind the value, where there were any."""
    outage: bool = False
    """Unscored because the outside world failed: asking again later may help."""

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if self.value is None and not self.reason:
            raise ValueError("a rating without a value must say why")
        return self


@runtime_checkable
class QualityMetric(Protocol):
    """Rates responses. No base class is needed; register yours under `palate.qualities`."""

    spec: str
    """Canonical spec, as printed and hashed."""
    fingerprint: str
    """Hash of all that the values depend on: model content, prompt, settings of the measure."""
    needs: tuple[Need, ...]
    """What every row must have."""
    surrogate: bool
    """True where it only stands in for a judge; named so wherever it is printed."""
    details: dict[str, Any]
    """The settings behind the fingerprint, for the manifest."""

    def check(self, rows: Sequence[Question]) -> None:
        """Raise `BenchmarkError` where rows lack what is needed, saying which and how many."""

    def rate(self, items: Sequence[QuestionResponse]) -> Iterator[tuple[int, QualityScore]]:
        """Yield (position in the call, rating) as they come, each position once.

        Rows are checked first, as by `check`.
        """
