"""A measure of quality: its protocol, how a spec names one, and the base of palate's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

from pydantic import Field, model_validator

from palate.errors import BenchmarkError, SpecError
from palate.records import Question, Record, Settings
from palate.records.arguments import grouped, shown
from palate.session import Session
from palate.specs import Spec, load

GROUP = "palate.qualities"
"""Entry points of measures."""
EMPTY = "empty response"
MAX_NAMES_SHOWN = 3
"""Rows or users that an error names."""
Need = Literal["aspects", "reference"]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Ratings = Iterator[tuple[int, "QualityScore"]]


class QuestionResponse(NamedTuple):
    """A response to a row's question; the row's gold may be read, `chosen` and `rejected` not."""

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
        """Yield (position in the call, rating), each once; rows are checked first, by `check`."""


def require(
    rows: Sequence[Question], lacks: Callable[[Question], bool], what: str, advice: str
) -> None:
    """Raise `BenchmarkError` where rows lack something; a row counts once, by its id.

    >>> question = Question(id="7", user_id="ann", text="Tea?")
    >>> require([question], lambda row: not row.gold.reference, "no `reference`", "give it one")
    Traceback (most recent call last):
    palate.errors.BenchmarkError: 1 of 1 rows have no `reference` (7); give it one
    """
    lacking = list(dict.fromkeys(row.id for row in rows if lacks(row)))
    if lacking:
        n, names = len({row.id for row in rows}), first_names(lacking)
        raise BenchmarkError(f"{len(lacking)} of {n} rows have {what} ({names}); {advice}")


def first_names(names: Sequence[str]) -> str:
    """Return the first of many names, for an error.

    >>> first_names(["ann", "bob", "cleo", "dan"])
    'ann, bob, cleo, …'
    """
    more = ["…"] if len(names) > MAX_NAMES_SHOWN else []
    return ", ".join([*names[:MAX_NAMES_SHOWN], *more])


def require_aspects(rows: Sequence[Question]) -> None:
    """Raise `BenchmarkError` where rows have no rubric, or an aspect of it has no title."""
    advice = (
        "give every row its `rubric_aspects`, or leave these rows out. Every quality reads gold: "
        "rubric-judge and coverage `rubric_aspects`, overlap a `reference`; a measure of your own "
        "(docs/quality.md) may read neither"
    )

    def titles(row: Question) -> list[bool]:
        return [bool(aspect.aspect.strip()) for aspect in row.gold.aspects]

    require(rows, lambda row: not any(titles(row)), "no `rubric_aspects`", advice)
    untitled = "an aspect without a title in their `rubric_aspects`"
    require(rows, lambda row: not all(titles(row)), untitled, "name every `aspect`")


def rows_of(items: Sequence[QuestionResponse]) -> list[Question]:
    """Return the rows behind the items, each once where many responses share it."""
    return list({id(item.question): item.question for item in items}.values())


class QualityMetricBase(ABC):
    """What palate's measures share; a subclass says what is `_read`, and how that is `_rated`."""

    needs: tuple[Need, ...] = ("aspects",)
    surrogate = False

    def check(self, rows: Sequence[Question]) -> None:
        """Raise `BenchmarkError` where rows have no rubric."""
        require_aspects(rows)

    def rate(self, items: Sequence[QuestionResponse]) -> Ratings:
        """Yield ratings as they come, empty responses first; what reads alike is rated once."""
        self.check(rows_of(items))
        return self._spared(items)

    def _spared(self, items: Sequence[QuestionResponse]) -> Ratings:
        full = []
        for k, item in enumerate(items):
            if item.response.strip():
                full.append(k)
                continue
            n = len(item.question.gold.aspects) if "aspects" in self.needs else 0
            yield k, QualityScore(value=0.0, aspects=(0.0,) * n, reason=EMPTY)
        for n, rated in self._once([items[k] for k in full]):
            yield full[n], rated

    def _once(self, items: Sequence[QuestionResponse]) -> Ratings:
        alike = list(grouped(range(len(items)), lambda k: self._read(items[k])).values())
        # No model is loaded where there is nothing to rate.
        for n, rated in self._rated([items[first] for first, *_ in alike]) if alike else ():
            yield from ((k, rated) for k in alike[n])

    def asked_afresh(self) -> AbstractContextManager[None]:
        """Ask for what a cache of replies holds as well, for a while."""
        return nullcontext()

    @abstractmethod
    def _read(self, item: QuestionResponse) -> tuple[object, ...]: ...

    @abstractmethod
    def _rated(self, items: Sequence[QuestionResponse]) -> Ratings: ...


def build_quality(
    spec: str | QualityMetric, session: Session, settings: Settings | None = None
) -> QualityMetric:
    """Build what a spec names, palate's own or an installed package's; an object is what it is.

    What is registered under `palate.qualities` is called with (spec, session, settings).
    Raises `SpecError` naming the near misses where nothing has this name.
    """
    measure: object = spec
    if isinstance(spec, str):
        parsed = Spec.parse(spec)
        measure = load(GROUP, parsed.kind)(parsed, session, settings or Settings())
    if not isinstance(measure, QualityMetric) or isinstance(measure, type):
        named = spec if isinstance(spec, str) else shown(spec)
        raise SpecError(
            f"{named}: {type(measure).__name__} is no measure of quality; it needs spec, "
            "fingerprint, needs, surrogate, details, check() and rate()"
        )
    return measure
