"""How close the reliability comes to a planted one, and how often its interval covers it.

    python tools/cover_of_reliability.py [DRAWS]

Scorers differ by a normal skill. Every user and every question moves every scorer by an amount of
its own, besides what moves all scorers alike and a noise of each row, all of sd 1. Full: 10 users
answer all of 12 questions. Sparse: 24 users answer 5 of 16 questions each, drawn anew.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from palate.metrics import Clusters, Reliability, reliability
from palate.reports import Form, Table, render

PLANTED = (0.3, 0.6, 0.9)
SCORERS = (4, 6, 10, 20)
FULL, SPARSE = (10, 12, 12), (24, 16, 5)
"""Users, questions, and how many of them each user answers."""


def world(
    rng: np.random.Generator, planted: float, n: int, design: tuple[int, int, int]
) -> Reliability | None:
    """Draw rows of n scorers whose means have the planted reliability, and estimate it."""
    users, questions, each = design
    user = np.repeat(np.arange(users), each)
    question = np.concatenate([rng.choice(questions, each, replace=False) for _ in range(users)])
    rows = user.size
    # Squared shares of users, of questions and of rows: what each sd of 1 adds to a mean's noise.
    noise = sum(
        float(np.sum((np.bincount(of) / rows) ** 2)) for of in (user, question, np.arange(rows))
    )
    skill = rng.normal(0, np.sqrt(planted / (1 - planted) * noise), n)
    values: Any = skill + rng.normal(size=(rows, n))
    values += rng.normal(size=(users, n + 1))[user] @ own_and_shared(n)
    values += rng.normal(size=(questions, n + 1))[question] @ own_and_shared(n)
    return reliability(values, Clusters.of(user, questions=question))


def own_and_shared(n: int) -> Any:
    """Each scorer's own effect, and the last one added to all."""
    return np.vstack([np.eye(n), np.ones(n)])


def main() -> None:
    """Print the table."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    rows = []
    for planted in PLANTED:
        for n in SCORERS:
            row = [f"{planted:g}", str(n)]
            for design in (FULL, SPARSE):
                rng = np.random.default_rng(round(100 * planted) + n)
                some = [world(rng, planted, n, design) for _ in range(draws)]
                known = [one for one in some if one is not None]
                low, middle, high = np.quantile([one.value for one in known], (0.1, 0.5, 0.9))
                cover = np.mean([one.low <= planted <= one.high for one in known])
                row += [f"{middle:.2f}", f"{low:.2f}–{high:.2f}", f"{cover:.3f}"]
            rows.append(row)
    columns = ["planted", "scorers", "full: median", "10–90 %", "cover",
               "sparse: median", "10–90 %", "cover"]  # fmt: skip
    note = f"{draws:,} draws a cell."
    sys.stdout.write(render([Table("reliability", columns, rows, [note], 1)], Form.MARKDOWN) + "\n")


if __name__ == "__main__":
    main()
