"""Signs that a cell's numbers do not mean what they seem to (docs/statistics.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate.metrics.arrays import FloatArray, IntArray
from palate.records import Record

Rows = NDArray[np.bool_]
TIES, UNSCORED, ONE_SIDE, AT_ENDS, NEAR, EQUAL = 0.5, 0.1, 0.8, 0.5, 0.2, 0.2
LENGTH, CLOSE = 0.98, 1e-3
LEAST, LEAST_SCORED, LEVEL = 20, 40, 0.001
"""Rows behind a share, scores or pairs behind others; how rarely a share at its bound is above."""


class Alarm(Record):
    """A check of a cell's numbers that failed, with what it counted."""

    check: str
    """unscored, constant, one side, ties, saturated, coarse, length, blind or cut."""
    n: int
    """How many scores, pairs, rows or comparisons show it."""
    of: int
    value: float | None = None
    """The score that all have, the step of the margins, or the correlation with length."""
    reason: str | None = None
    """Why most unscored rows have no score."""


def of_share(
    check: str, k: int, n: int, bound: float, units: int | None = None, **more: Any
) -> Iterator[Alarm]:
    """Yield an alarm where k of n, or that share of fewer units, are above a bound beyond luck.

    >>> [len([*of_share("ties", k, 96, 0.5)]) for k in (60, 68)]
    [0, 1]
    """
    from scipy.special import bdtrc  # slow to import

    units = n if units is None else units
    part = k * units // max(n, 1)
    if units >= LEAST and part and bdtrc(part - 1, units, bound) < LEVEL:
        yield Alarm(check=check, n=k, of=n, **more)


def of_scores(scores: FloatArray) -> Iterator[Alarm]:
    """Yield what the scores of a cell show, of each request once."""
    n = scores.size
    if n >= LEAST and np.ptp(scores) == 0:
        yield Alarm(check="constant", n=n, of=n, value=float(scores[0]))
    elif (
        n >= LEAST_SCORED and scores.min() >= 0 and scores.max() <= 1 and len(np.unique(scores)) > 2
    ):
        low, high = scores < CLOSE, scores > 1 - CLOSE
        low &= high.any() | (scores > 0)  # many zeros alone are of scorers that count
        yield from of_share("saturated", int((low | high).sum()), n, AT_ENDS)


def of_margins(
    codes: IntArray, margins: FloatArray, longer: FloatArray, reads_user: Rows, *, log_odds: bool
) -> Iterator[Alarm]:
    """Yield what margins show, each of the same response of its pair; NaN where there is none.

    `codes` number pairs and users; `reads_user` says whose rows show the scorer their own user.
    """
    from scipy.stats import rankdata  # slow to import

    pairs, some = codes[0], ~np.isnan(margins)
    sizes, n_pairs = np.abs(margins[some]), len(np.unique(pairs[some]))
    if n_pairs < LEAST or not sizes.any():
        return
    steps = sizes / (step := float(sizes[sizes > 0].min()))
    if log_odds and (np.abs(steps - np.round(steps)) < CLOSE).all():
        near = int((steps < 1.5).sum())
        yield from of_share("coarse", near, sizes.size, NEAR, n_pairs, value=step)
    ranks = np.stack([rankdata(column[some]) for column in (margins, longer)])
    if n_pairs >= LEAST_SCORED and np.ptp(ranks, axis=1).all():
        correlation = float(np.asarray(np.corrcoef(ranks))[0, 1])
        if abs(correlation) > LENGTH:
            yield Alarm(check="length", n=n_pairs, of=n_pairs, value=round(correlation, 3))
            return  # and so the same for all users
    order = np.argsort(pairs, kind="stable")
    order = order[(some & reads_user)[order]]
    couples = (np.diff(pairs[order]) == 0) & (np.diff(codes[1, order]) != 0)
    yield from of_users(*(margins[part][couples] for part in (order[:-1], order[1:])))


def of_users(a: FloatArray, b: FloatArray) -> Iterator[Alarm]:
    """Yield an alarm where margins of the same responses are equal, though what is shown differs.

    Few values are equal by luck, and so are some of many rounded ones, as in half precision.
    """
    n, sizes = len(a), np.abs(np.concatenate([a, b]))
    if n < LEAST or len(np.unique(sizes)) < min(n, 400) / 2:
        return
    equal, grid = int((a == b).sum()), np.ldexp(1.0, np.frexp(np.median(sizes))[1] - 14)
    if equal == n:
        yield Alarm(check="blind", n=n, of=n)
    elif np.mean(sizes % grid == 0) < 0.5:
        yield from of_share("cut", equal, n, EQUAL)
