"""Whether chosen and rejected answers are equally good: ratings against a margin."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from palate.metrics import Clusters, Estimate, clustered_mean, equivalence
from palate.study.agreement.result import Figure
from palate.study.records import HIGHEST, LOWEST, AnswerRow

BY_LAW = "not tested: no rated item has one chosen answer; where users chose both, it is 0 by law"
BLIND = "not shown: these raters are not shown to rate their checks apart by more than the margin"
FINDINGS = {"shown": "equivalent", "refuted": "different"}


class RatingDifference(NamedTuple):
    """The difference of an answer's two ratings, whose it is, and of which two answers."""

    difference: float
    rater: Hashable
    pair: Hashable


def differences(answers: Iterable[AnswerRow], dimension: str) -> list[RatingDifference]:
    """Return chosen less rejected of pairs, expected less other of checks."""
    rated = []
    for row in answers:
        side, scores = row.expected or row.gold, row.ratings.get(dimension)
        if side in {"first", "second"} and scores:
            apart = float(scores[0] - scores[1]) * (1 if side == "first" else -1)
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
    interval: raters who see nothing find everything alike. So where checks were rated, raters count
    who rated both. Different: the whole interval of the pairs lies beyond the margin. Returns the
    figure of pairs, with the finding, and of checks.
    """
    rated, both = bool(pairs), {row.rater for row in pairs} & {row.rater for row in checks}
    if rated and checks:
        pairs, checks = ([row for row in rows if row.rater in both] for rows in (pairs, checks))
    of_pairs, of_checks = _mean(pairs), _mean(checks)
    tested = equivalence(of_pairs, null=0, margin=margin)
    finding = FINDINGS.get(tested.finding) or tested.words("ratings")
    if not rated:
        finding = BY_LAW
    elif finding == "equivalent" and not (of_checks.low is not None and of_checks.low > margin):
        finding = BLIND
    return (
        Figure.make(
            "quality", dimension, "chosen − rejected", of_pairs, p=tested.p, finding=finding
        ),
        Figure.make("quality", dimension, "on checks", of_checks),
    )


def _mean(rated: Sequence[RatingDifference]) -> Estimate:
    values, raters, pairs = zip(*rated, strict=True) if rated else ((), (), ())
    most = float(HIGHEST - LOWEST)
    rows = Clusters.of(raters, questions=pairs)
    return clustered_mean(values, rows, null=0, bounds=(-most, most))
