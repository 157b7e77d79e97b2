"""What must hold of a law, and the bar of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from decoding_laws.enumeration import Floats, Response, Tree

CLOSE = 1e-5
LEAST_P = 1e-4
MOVED = 0.2
"""Least total variation between policy and guided law: any sampler passes where nothing moves."""
CELL = 5
"""Responses are pooled until so many are expected."""
FEWEST_CELLS = 10


class LawCheck(NamedTuple):
    """One law that was checked: what came out, and between which bounds it had to lie."""

    what: str
    value: float
    low: float
    high: float
    moved: float | None = None
    """Total variation between policy and guided law, which has a bar too."""

    @property
    def ok(self) -> bool:
        """True where the value lies within the bar, and the guided law far from the policy's."""
        far = self.moved is None or self.moved >= MOVED
        return self.low <= self.value <= self.high and far


def total_variation(law: Floats, other: Floats) -> float:
    """Return half the summed differences; what a law puts on no response at all counts too."""
    outside = abs(law.sum() - other.sum())
    return float((np.abs(law - other).sum() + outside) / 2)


def chi_square(tree: Tree, law: Floats, drawn: Sequence[Response]) -> float:
    """Return the p-value of a sample under a law; 0 where it holds what the law rules out.

    It is 0 as well where there are too few cells to tell laws apart.
    """
    counts = Counter(drawn)
    seen = np.array([counts.pop(response, 0) for response in tree.responses])
    if counts or not np.isfinite(law).all() or seen[law <= 0].any():
        return 0.0
    expected = law / law.sum() * len(drawn)
    cells: list[list[float]] = [[0.0, 0.0]]
    for k in np.argsort(expected):
        if cells[-1][0] >= CELL:  # the likelier ones come last
            cells.append([0.0, 0.0])
        cells[-1][0] += float(expected[k])
        cells[-1][1] += float(seen[k])
    statistic = sum((there - due) ** 2 / due for due, there in cells)
    return float(chi2.sf(statistic, len(cells) - 1)) if len(cells) >= FEWEST_CELLS else 0.0


def own_law(what: str, made: Floats, expected: Floats, base: Floats) -> LawCheck:
    """Check a law of all responses."""
    apart = total_variation(made, expected)
    return LawCheck(what, apart, 0, CLOSE, total_variation(expected, base))


def samples(
    what: str, tree: Tree, law: Floats, base: Floats, drawn: Sequence[Response]
) -> LawCheck:
    """Check a sample."""
    p = chi_square(tree, law, drawn)
    return LawCheck(what, p, LEAST_P, 1, total_variation(law, base))
