"""What must hold of a law, and the bar of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.stats import chi2

from decoding_laws.enumeration import Floats, Response, Tree
from palate.records import Record

Kind = Literal[
    "logits", "own law", "tilt", "not the tilt", "samples", "divergence", "w = 0", "w → 0", "w → ∞"
]
CLOSE = 1e-5
LEAST_P = 1e-4
MOVED = 0.2
"""Least total variation between policy and guided law: any sampler passes where nothing moves."""
CELL = 5
"""Responses are pooled until so many are expected."""
FEWEST_CELLS = 10


class LawCheck(Record):
    """One law that was checked: what came out, and between which bounds it had to lie."""

    kind: Kind
    what: str
    responses: int
    """Listed, or drawn."""
    value: float
    low: float
    high: float
    moved: float | None = None
    """Total variation between policy and guided law, which has a bar too."""

    @property
    def ok(self) -> bool:
        """True where the value lies within the bar, and the guided law far from the policy's.

        >>> given = {"kind": "own law", "what": "", "responses": 9, "low": 0, "high": 1e-5}
        >>> LawCheck(**given, value=float("nan")).ok, LawCheck(**given, value=0, moved=0.1).ok
        (False, False)
        """
        far = self.moved is None or self.moved >= MOVED
        return self.low <= self.value <= self.high and far


def total_variation(law: Floats, other: Floats) -> float:
    """Return half the summed differences; what a law puts on no response at all counts too.

    >>> total_variation(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    0.5
    """
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
    return LawCheck(
        kind="own law", what=what, responses=len(made), value=total_variation(made, expected),
        low=0, high=CLOSE, moved=total_variation(expected, base),
    )  # fmt: skip


def samples(
    what: str, tree: Tree, law: Floats, base: Floats, drawn: Sequence[Response]
) -> LawCheck:
    """Check a sample."""
    return LawCheck(
        kind="samples", what=what, responses=len(drawn), value=chi_square(tree, law, drawn),
        low=LEAST_P, high=1, moved=total_variation(law, base),
    )  # fmt: skip
