"""Whether chosen and rejected answers are equally good: ratings against a margin."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Literal, NamedTuple

from palate.metrics import Clusters, Estimate, clustered_mean, equivalence
from palate.study.agreement.result import Figure
from palate.study.records import HIGHEST, LOWEST, AnswerRow

BY_LAW = "not tested: somebody chose either answer of every item, so the difference is 0 by law"
BLIND = "not shown: these raters are not shown to rate their checks apart by more than the margin"
FINDINGS = {"shown": "equivalent", "refuted": "different"}


class RatingDifference(NamedTuple):
    """The difference of an answer's two ratings, whose it is, and of which two answers."""

    difference: float
    rater: Hashable
    pair: Hashable


def differences(
    answers: Iterable[AnswerRow], dimension: str, kind: Literal["pair", "check"]
) -> list[RatingDifference]:
    """Return chosen less rejected of pairs, or expected less other of checks."""
    rated = []
    for row in answers:
        side = row.gold if kind == "pair" else row.expected
        if row.kind == kind and not row.again and side not in {None, "both"} and row.ratings:
            first, second = row.ratings[dimension]
            apart = float(first - second if side == "first" else second - first)
            rated.append(RatingDifference(apart, row.rater, row.pair))
    return rated


def equal_quality(
    pairs: Sequence[RatingDifference],
    checks: Sequence[RatingDifference],
    dimension: str,
    margin: float,
) -> tuple[Figure, Figure]:
    """Test that the mean difference of pairs is within the margin, clustered by rater and pair.

    Only raters can show it whose mean difference on checks is above the margin by its 95 %
    interval: raters who see nothing find everything alike. Different: the whole interval of the
    pairs lies beyond the margin. Returns the figure of pairs, with the finding, and of checks.
    """
    of_pairs, of_checks = _mean(pairs), _mean(checks)
    tested = equivalence(of_pairs, null=0, margin=margin)
    finding = FINDINGS.get(tested.finding) or tested.words("ratings")
    if not pairs:
        finding = BY_LAW
    elif finding == "equivalent" and not (of_checks.low is not None and of_checks.low > margin):
        finding = BLIND
    told = {"p": tested.p, "finding": finding}
    return (
        Figure.make("quality", dimension, "chosen − rejected", of_pairs, **told),
        Figure.make("quality", dimension, "on checks", of_checks),
    )


def _mean(rated: Sequence[RatingDifference]) -> Estimate:
    values, raters, pairs = zip(*rated, strict=True) if rated else ((), (), ())
    most = float(HIGHEST - LOWEST)
    rows = Clusters.of(raters, questions=pairs)
    return clustered_mean(values, rows, null=0, bounds=(-most, most))
