"""What all measures share: which rows can be rated, empty responses, equal work done once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence

from palate.downstream.quality.protocol import Answered, Need, Rated
from palate.errors import BenchmarkError
from palate.records import Question

Ratings = Iterator[tuple[int, Rated]]
Rate = Callable[[Sequence[Answered]], Ratings]
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


def rows_of(items: Sequence[Answered]) -> list[Question]:
    """Return the rows behind the items, each once where many responses share it."""
    return list({id(item.question): item.question for item in items}.values())


def spare_empty(items: Sequence[Answered], rate: Rate, *, aspects: bool) -> Ratings:
    """Yield 0 for responses of nothing but white space, and what `rate` gives for the others.

    `aspects` says whether a rating has a value for every aspect of its row.
    """
    said = []
    for k, item in enumerate(items):
        if item.response.strip():
            said.append(k)
            continue
        nothing = (0.0,) * (len(item.question.gold.aspects) if aspects else 0)
        yield k, Rated(value=0.0, aspects=nothing, reason=EMPTY)
    for n, rated in rate([items[k] for k in said]):
        yield said[n], rated


def rate_once(
    items: Sequence[Answered], read: Callable[[Answered], Hashable], rate: Rate
) -> Ratings:
    """Yield ratings; items of which `read` returns the same are one piece of work.

    `rate` is not called where there is nothing to rate, so that no model is loaded for it.
    """
    places: dict[Hashable, list[int]] = defaultdict(list)
    for k, item in enumerate(items):
        places[read(item)].append(k)
    if not places:
        return
    own = list(places.values())
    for n, rated in rate([items[first] for first, *_ in own]):
        yield from ((k, rated) for k in own[n])


class Measure(ABC):
    """What palate's own measures share; most read a rubric.

    Subclasses give `_read`, what of an item a rating depends on, and `_rated`, the ratings of items
    that all read differently.
    """

    needs: tuple[Need, ...] = ("aspects",)
    surrogate = False

    def check(self, rows: Sequence[Question]) -> None:
        """Raise `BenchmarkError` where rows have no rubric."""
        require_aspects(rows)

    def rate(self, items: Sequence[Answered]) -> Ratings:
        """Yield ratings as they come, empty responses first; what reads alike is rated once."""
        self.check(rows_of(items))
        return spare_empty(items, self._once, aspects="aspects" in self.needs)

    def _once(self, items: Sequence[Answered]) -> Ratings:
        return rate_once(items, self._read, self._rated)

    @abstractmethod
    def _read(self, item: Answered) -> tuple[object, ...]: ...

    @abstractmethod
    def _rated(self, items: Sequence[Answered]) -> Ratings: ...
