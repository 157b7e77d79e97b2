"""The base of all measures: rows that can be rated, empty responses, equal work done once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

from palate.errors import BenchmarkError
from palate.quality.protocol import Need, QualityScore, QuestionResponse
from palate.records import Question

Ratings = Iterator[tuple[int, QualityScore]]
EMPTY = "empty response"
NAMED = 3
"""Rows that an error names."""


def require(
    rows: Sequence[Question],
    lacks: Callable[[Question], bool],
    what: str,
    advice: str,
) -> None:
    """Raise `BenchmarkError` where rows lack something; a row counts once, by its id.

    >>> question = Question(id="7", user_id="ann", text="Tea?")
    >>> require([question], lambda row: not row.gold.reference, "no `reference`", "give it one")
    Traceback (most recent call last):
    palate.errors.BenchmarkError: 1 of 1 rows have no `reference` (7); give it one
    """
    lacking = list(dict.fromkeys(row.id for row in rows if lacks(row)))
    if not lacking:
        return
    names = ", ".join([*lacking[:NAMED], *(["…"] if len(lacking) > NAMED else [])])
    n = len({row.id for row in rows})
    raise BenchmarkError(f"{len(lacking)} of {n} rows have {what} ({names}); {advice}")


def require_aspects(rows: Sequence[Question]) -> None:
    """Raise `BenchmarkError` where rows have no rubric, or an aspect of it has no title."""
    advice = "give every row its `rubric_aspects`, or leave these rows out"

    def titles(row: Question) -> list[bool]:
        return [bool(aspect.aspect.strip()) for aspect in row.gold.aspects]

    require(rows, lambda row: not any(titles(row)), "no `rubric_aspects`", advice)
    untitled = "an aspect without a title in their `rubric_aspects`"
    require(rows, lambda row: not all(titles(row)), untitled, "name every `aspect`")


def rows_of(items: Sequence[QuestionResponse]) -> list[Question]:
    """Return the rows behind the items, each once where many responses share it."""
    return list({id(item.question): item.question for item in items}.values())


class QualityMetricBase(ABC):
    """What palate's own measures share; most read a rubric.

    Subclasses give `_read`, what of an item a rating depends on, and `_rated`, the ratings of items
    that all read differently.
    """

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
        places: dict[Hashable, list[int]] = defaultdict(list)
        for k, item in enumerate(items):
            places[self._read(item)].append(k)
        alike = list(places.values())
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
