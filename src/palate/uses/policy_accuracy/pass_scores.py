"""Scores of every pair by the passes of a policy: chosen and rejected as two columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from palate.evaluation import BoundScorer, need_replies
from palate.execution import Results
from palate.metrics.arrays import row_means
from palate.metrics.policy import PolicyScores, Reading
from palate.records import NO_STRANGER
from palate.scorers.tilted_policy import SteeredPolicy
from palate.uses.units import Doubles


class PassScores(NamedTuple):
    """Scores of all pairs (pairs × draws × 2, chosen first), and why pairs have none."""

    scores: PolicyScores
    reasons: dict[str, int]

    def values(self, weight: float, reading: Reading) -> Doubles:
        """Return 1, ½ or 0 of each pair, the mean over its strangers; NaN where unscored."""
        return row_means(self.scores.values(weight, reading))

    @property
    def reward(self) -> Doubles:
        """The same of the reward alone."""
        alone = self.scores.reward
        return row_means(PolicyScores.tilt(0 * alone, alone, 1 + 0 * alone).values(1, "ratio"))

    @property
    def reward_margins(self) -> Doubles:
        """Margins of the reward, all draws."""
        first, second = np.moveaxis(self.scores.reward, -1, 0)
        return np.asarray(first - second)


def columns(job: BoundScorer, passes: Sequence[Results]) -> PassScores:
    """Gather what is known of every pair; raises `EndpointError` where an endpoint was silent."""
    scorer, rows, info = job.scorer, job.rows, job.info
    assert isinstance(scorer, SteeredPolicy)
    need_replies(job.spec, passes, "rows")
    reasons: Counter[str] = Counter()
    by_row = []
    for row in range(len(rows)):
        place = rows.chosen_position(row)
        scores, why = scorer.scores_of([results.scores(row) for results in passes])
        reason = why[0] or why[1]
        if rows.no_stranger[row]:
            reason = NO_STRANGER
        elif info.needs_shown and not (rows.parts[row] and passes[0].parts_of(row)):
            reason = "nothing shown"
        if reason is not None:
            reasons[reason] += 1
            scores = scores.map(lambda array: np.full_like(array, np.nan))
        by_row.append(scores if place == 0 else scores.map(lambda array: array[::-1]))
    shape = len(rows) // rows.draws, rows.draws, 2
    whole = PolicyScores.stacked(by_row).map(lambda array: array.reshape(shape))
    return PassScores(whole, dict(sorted(reasons.items())))
