"""The outcome of one check of a benchmark's rows, and the options of all checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class CheckOptions:
    """Options of the checks that need more than the rows."""

    adherence: str | None = None
    """A measure of quality, which says how far an answer meets a rubric."""
    gap: str = "null:0.95"
    """What a gap must be above: a quantile of the gaps under third users' rubrics, or a number."""
    blind: str | None = None
    """A scorer or judge that is shown nothing of the user."""
    apart: float | None = None
    """The largest margin, in the points of a blind scorer, at which no answer counts as better."""
    against: Sequence[Path] = ()
    """Files that share no 13 words with the benchmark."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """Adherence of answers to rubrics, and the gaps between chosen and rejected.

    A unit is a couple, whose gap is the sum over both of its rows, or a row in no couple.
    """

    rows: tuple[int, ...]
    """Positions of the rated rows in the benchmark."""
    units: tuple[tuple[int, ...], ...]
    """Positions of each unit's rows in the benchmark."""
    own: Doubles
    """(rated rows × 2): adherence of chosen and rejected to the user's rubric; NaN: unrated."""
    third: Doubles
    """(rated rows × draws × 2): to rubrics of third users; NaN beyond those that there are."""
    gaps: Doubles
    """Of each unit, chosen less rejected."""
    null: dict[int, Doubles]
    """By the rows of a unit (2 for couples, 1 for rows): the gaps under third users' rubrics."""
    thresholds: dict[int, float | None]
    """By the rows of a unit: what its gap must be above; None where there is no null."""
    reasons: dict[str, int]
    """Why ratings are missing."""


class CheckResult(NamedTuple):
    """What one check says of every row of a benchmark."""

    name: str
    """Such as `format` or `gap`."""
    details: tuple[str | None, ...]
    """Of each row, why it fails, without any text of it; else None."""
    n_checked: int
    """Rows that have what the check needs."""
    needs: str | None = None
    """What is missing where nothing could be checked."""
    verbatim: tuple[int, int] | None = None
    """Of `quote`: evidences found verbatim, and all."""
    gaps: Gaps | None = None
    """Of `gap`: the figures behind it."""

    @property
    def failed(self) -> int:
        """The number of rows that fail."""
        return sum(detail is not None for detail in self.details)

    @classmethod
    def missing(cls, name: str, n: int, needs: str) -> CheckResult:
        """Return the result of a check that could check none of n rows.

        >>> CheckResult.missing("later", 2, "dates").needs
        'dates'
        """
        return cls(name, (None,) * n, 0, needs)
