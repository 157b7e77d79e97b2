"""One scale for all scorers: deviations from what an untrained policy's answers get."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palate.errors import UsageError
from palate.records import Record


class Scale(Record):
    """Mean and standard deviation of the rewards of a policy's answers.

    A reward on it is (r − mean) / deviation, so that a coefficient beside it, such as that of a KL
    penalty, means the same for every scorer.
    """

    mean: float
    deviation: float
    n: int
    """Answers with a reward."""
    policy: str | None = None
    samples: str | None = None
    """Content hash of the answers."""

    @classmethod
    def of(cls, values: Sequence[Sequence[float | None]]) -> Scale:
        """Return the scale of rewards, one list for each row; those that are missing are left out.

        Raises `UsageError` where no row has two different rewards: such a reward teaches nothing.

        >>> scale = Scale.of([[1.0, 3.0], [None, 5.0]])
        >>> scale.mean, round(scale.deviation, 3), scale.n
        (3.0, 1.633, 3)
        """
        rows = [[value for value in row if value is not None] for row in values]
        if not any(len({*row}) > 1 for row in rows):
            raise UsageError(
                f"all answers to a row have one reward, in each of {len(rows)} rows: the scorer "
                "does not read the answer, or all answers are alike; there is nothing to learn"
            )
        every = np.array([value for row in rows for value in row])
        return cls(mean=float(every.mean()), deviation=float(every.std()), n=every.size)

    def on(self, value: float) -> float:
        """Return a reward on this scale.

        >>> Scale(mean=3.0, deviation=2.0, n=3).on(7.0)
        2.0
        """
        return (value - self.mean) / self.deviation
