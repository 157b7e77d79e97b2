"""Which metric predicts the quality of picks better? Six comparisons, named beforehand.

All pairs of all metrics would be dozens of tests, and by Holm none could be found. So what is
compared was fixed before any result was seen, on the first measure of quality alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from palate.metrics.ranks import agreement_difference
from palate.runs import with_holm
from palate.validity.matching import LEAST, MatchedMetric
from palate.validity.result import Difference

COMPARED = (
    ("accuracy", "mirrored accuracy"),
    ("accuracy", "gain"),
    ("mirrored accuracy", "concordance"),
    ("mirrored accuracy", "identity gain"),
    ("concordance", "identity gain"),
    ("gain", "identity gain"),
)
"""Pairs of metrics whose agreement with quality is compared."""


def compared(matches: Sequence[MatchedMetric]) -> list[tuple[MatchedMetric, MatchedMetric]]:
    """Return the two sides of each comparison of `COMPARED` that these matches allow.

    The first benchmark that has both metrics; where none has, the first that has each. Two sides
    with fewer than three common scorers are not compared.
    """
    pairs = []
    for first, second in COMPARED:
        sides = [
            (a, b)
            for a in matches
            for b in matches
            if (a.metric, b.metric) == (first, second) and len(_common(a, b)) >= LEAST
        ]
        # Stable: of several the order of the runs decides.
        sides.sort(key=lambda pair: pair[0].benchmark != pair[1].benchmark)
        pairs += sides[:1]
    return pairs


def differences_of(
    pairs: Sequence[tuple[MatchedMetric, MatchedMetric]], seed: int = 0
) -> tuple[Difference, ...]:
    """Compare both sides of each pair, Holm-corrected over all of them."""
    differences = [_difference(first, second, seed) for first, second in pairs]
    return tuple(with_holm(differences, [each.tau.p for each in differences]))


def _difference(first: MatchedMetric, second: MatchedMetric, seed: int) -> Difference:
    common, downstream = _common(first, second), first.downstream
    quality = downstream.table(common).figures
    x1, x2 = (side.table.figures for side in (first, second))
    return Difference(
        first=(first.benchmark, first.metric),
        second=(second.benchmark, second.metric),
        downstream=downstream.of,
        n=len(common),
        tau=agreement_difference(
            [x1[name] for name in common],
            [x2[name] for name in common],
            [quality[name] for name in common],
            seed=seed,
        ),
    )


def _common(first: MatchedMetric, second: MatchedMetric) -> list[tuple[str, str]]:
    return [name for name in first.scorers if name in second.scorers]
