"""A slate as a scorer reads it, with what was made of it so far, so that no text is read twice."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from palate.records.lazy import Lazy
from palate.records.slates import Part, Slate
from palate.records.verdicts import Judgement, Scores

SHORT = 2**16
RECORD, PART, INPUT = 2_000, 800, 200
"""Bytes of a slate, a part and an input beside their texts and tokens."""


class Encoded(NamedTuple):
    """Token ids of prompt and response together; the response starts at `start`."""

    ids: Sequence[int]
    start: int = 0


class Prepared(NamedTuple):
    """The slate as read: what the scorer ignores is gone, what is shown is cut to fit."""

    slate: Slate
    dropped: int = 0
    """Parts that did not fit."""
    inputs: tuple[Encoded, ...] = ()
    """What the model reads, one of each response (a judge's: of each order); empty where no text
    had to be tokenised yet."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in memory, a little less than it may."""
        slate = self.slate
        texts = [m.content for m in slate.question] + [p.text for p in slate.shown]
        size = RECORD + PART * len(slate.shown) + sum(map(sys.getsizeof, texts))
        size += sum(map(sys.getsizeof, slate.candidates))
        return size + sum(INPUT + sys.getsizeof(it.ids) for it in self.inputs)


def packed(inputs: Sequence[Encoded]) -> tuple[Encoded, ...]:
    """Return the same inputs with their ids in two or four bytes each."""
    return tuple(Encoded(_array(it.ids), it.start) for it in inputs)


def unpacked(inputs: Sequence[Encoded]) -> list[Encoded]:
    """Return the same inputs with their ids as tuples, as a tokenizer gives them."""
    return [Encoded(tuple(it.ids), it.start) for it in inputs]


def _array(ids: Sequence[int]) -> array[int]:
    return array("H" if max(ids, default=0) < SHORT else "i", ids)


def without_worst(slate: Slate, dropped: int) -> Slate:
    """Return the slate without so many of its worst ranked parts."""
    if not dropped:
        return slate
    ranked: list[Part] = sorted(slate.shown, key=lambda part: part.rank)
    return slate.replace(shown=tuple(ranked[: max(0, len(ranked) - dropped)]))


def prepare(scorer: Any, slate: Slate, dropped: int | None = None) -> Prepared:
    """Return the slate as this scorer or judge reads it; equal readings are computed once.

    `dropped` is what an earlier call dropped of this slate, given to scorers that cut: they count
    no token again then.
    """
    made = getattr(scorer, "prepare", None)
    if made is None:
        return Prepared(slate)
    read = made(slate) if dropped is None else made(slate, dropped)
    assert isinstance(read, Prepared)
    return read


def prepared_slates(scorer: Any, slates: Sequence[Slate]) -> Sequence[Prepared]:
    """Return slates, each prepared when it is looked at."""
    return Lazy(len(slates), lambda k: prepare(scorer, slates[k]))


def results_of(
    scorer: Any, prepared: Sequence[Prepared]
) -> Iterator[tuple[int, Scores | Judgement]]:
    """Yield (position, result) by the first that the scorer offers of these methods.

    `judge_prepared`, `judge`, `score_prepared`, `score`.
    """
    name = "judge" if hasattr(scorer, "judge") else "score"
    run: Callable[..., Iterator[tuple[int, Scores | Judgement]]]
    run = getattr(scorer, f"{name}_prepared", None) or getattr(scorer, name)
    takes_slates = not hasattr(scorer, f"{name}_prepared")
    return run(tuple(it.slate for it in prepared) if takes_slates else prepared)
