"""The difference in accuracy of two runs of the same rows, with its interval and its test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.metrics import Clusters, Estimate
from palate.runs import Verdicts


@dataclass(frozen=True)
class PairedDifference:
    """A difference over the rows, or couples, that both runs scored."""

    estimate: Estimate
    p: float | None
    method: str
    """What p and the interval are of."""
    n_all: int
    """Rows, or couples, there are."""
    by_user: NDArray[np.float64] | None = None
    """Each user's sum, where signs are flipped by user."""

    @property
    def figures(self) -> dict[str, Any]:
        """What a test and a gain tell of it."""
        return figures_of(self.estimate) | {"p": self.p}


def figures_of(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate's figures as fields of what is reported."""
    told = {name: getattr(estimate, name) for name in ("value", "low", "high", "n", "note", "p")}
    return told | {"n_users": estimate.n_units}


def paired(
    first: Verdicts, second: Verdicts, *, counted: NDArray[np.bool_] | None = None
) -> PairedDifference:
    """Return the paired difference ``first − second`` over rows, or over mirrored couples.

    Both have the same rows in the same order; all are counted by default. p is that of the
    interval's t where rows depend on each other across users, that is on couples and where users
    share questions; else of sign flips by user.
    """
    return tested([_difference(first, second, counted)])[0]


def paired_each(pairs: Iterable[tuple[Verdicts, Verdicts]]) -> list[PairedDifference]:
    """Return the paired difference of each two, all sign flips in one product."""
    return tested([_difference(first, second, None) for first, second in pairs])


def tested(differences: Sequence[PairedDifference]) -> list[PairedDifference]:
    """Return differences with the p of sign flips where that is their test."""
    flips = [each.by_user for each in differences if each.by_user is not None]
    drawn = iter(metrics.sign_flip_tests(flips))
    return [
        each if each.by_user is None else replace(each, p=next(drawn), by_user=None)
        for each in differences
    ]


def _difference(
    first: Verdicts, second: Verdicts, counted: NDArray[np.bool_] | None
) -> PairedDifference:
    units = first.units(second)
    ours = first.values if counted is None else np.where(counted, first.values, np.nan)
    x, y = units.values(ours), units.values(second.values)
    estimate = metrics.paired_difference(x, y, units.clusters)
    scored, by_user = ~np.isnan(differences := x - y), None
    method = method_of(units.clusters.take(scored))
    if method == BY_USER and scored.any():
        weights = differences[scored]
        by_user = np.bincount(first.user_codes[scored], weights).astype(np.float64)
    return PairedDifference(estimate, estimate.p, method, len(x), by_user)


BY_USER = "sign-flip permutation by user; interval: user jackknife"


def method_of(clusters: Clusters) -> str:
    """Return how a difference on these rows is tested, and what its interval is of."""
    if clusters.couples:
        return f"t of the dyadic jackknife by {clusters.by} over couples"
    return BY_USER if clusters.items is None else f"t of the jackknife by {clusters.by}"
