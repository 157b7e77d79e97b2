"""The answers to every row as slates of two.

Answers go in couples, so that a run of any scorer is made of rows of two, and slates that share
their prompt become one wide slate: what N answers share is read once. A judge compares every two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from palate.downstream.sampling.samples import Samples
from palate.evaluation.rows import Rows
from palate.records import Slate, Term, read_by


class SampledRows:
    """Each row's distinct answers in couples; of a judge, every two."""

    def __init__(
        self, rows: Rows, samples: Samples, *, every_two: bool, terms: Sequence[Term] = ()
    ) -> None:
        self.rows, self._terms = rows, () if every_two else terms
        self._last: tuple[int, Slate] | None = None
        self.texts: list[list[str]] = [
            list(dict.fromkeys(one.text for one in own if one.text.strip()))
            for own in samples.of_row
        ]
        self.couples: list[tuple[int, int, int]] = [
            (row, i, j)
            for row, texts in enumerate(self.texts)
            for i, j in (
                combinations(range(len(texts)), 2)
                if every_two and len(texts) > 1
                else _side_by_side(0 if every_two else len(texts))
            )
        ]

    def __len__(self) -> int:
        return len(self.couples)

    def prepare(self) -> None:
        """Let the context do at once what would be costly row by row."""
        self.rows.prepare()

    def id(self, row: int) -> str:
        """Return the benchmark row's id, and which of its answers."""
        at, i, j = self.couples[row]
        return f"{self.rows.id(at)}#{i},{j}"

    def slate(self, row: int) -> Slate:
        """Return the benchmark row's slate with two of the answers as candidates.

        What is shown is cut to the window beside the longest of all the row's answers, so that all
        are scored after the same text.
        """
        at = self.couples[row][0]
        if self._last is None or self._last[0] != at:
            whole = self.rows.slate(at)
            for term in self._terms:
                if not term.blind and len(self.texts[at]) > 1:
                    shown = whole.replace(candidates=tuple(self.texts[at]))
                    whole = whole.replace(shown=read_by(term.contestant, shown).shown)
            self._last = at, whole
        return self._last[1].replace(candidates=self.candidates(row))

    def candidates(self, row: int) -> tuple[str, ...]:
        """Return the two answers."""
        at, i, j = self.couples[row]
        return self.texts[at][i], self.texts[at][j]


def _side_by_side(n: int) -> Iterator[tuple[int, int]]:
    yield from ((k, k + 1) for k in range(0, n - 1, 2))
    if n % 2:
        yield (n - 1, 0)  # of one text alone, twice the same
