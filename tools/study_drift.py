"""How often drift is found where half of 40 users turn, and where nobody does.

    python tools/study_drift.py [--worlds 200]

Each user chooses in 40 pairs, is asked 20 of them again soon and the others 40 days later. Of the
turned, every late choice follows the opposite taste.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np

from palate.reports import Form, Table, render
from palate.seeding import digest
from palate.study import AnswerRow
from palate.study.agreement import retest_report

DAY = datetime(2026, 1, 1, tzinfo=UTC)
USERS, PAIRS, LATE = 40, 40, 40


@cache
def pair_name(pair: int) -> str:
    """Return the hash that stands for a pair."""
    return digest(pair)[:16]


def answer(rater: str, pair: int, choice: str, *, day: float = 0, again: bool = False) -> AnswerRow:
    """Return a rater's answer, given so many days after the first."""
    name = pair_name(pair)
    return AnswerRow.model_construct(
        rater=rater,
        item=name,
        pair=name,
        asks="prefers",
        again=again,
        responses=(name, name),
        left="first",
        choice=choice,
        date=(DAY + timedelta(days=day)).isoformat(),
    )


def answers_of(first: np.ndarray, second: np.ndarray, days: np.ndarray) -> list[AnswerRow]:
    """Return raters × pairs of answers, True for the first side, and those asked again."""
    sides = {True: "first", False: "second"}
    return [
        answer(f"r{u}", q, sides[bool(table[u, q])], day=float(again * days[u, q]), again=again)
        for again, table in ((False, first), (True, second))
        for u, q in np.ndindex(first.shape)
    ]


def repeats(seed: int, turning: int) -> list[AnswerRow]:
    """Return answers of 40 users, of whom so many turn before their late repeats."""
    stream = np.random.default_rng(seed)
    taste = 1.5 * stream.normal(size=(USERS, 3)) @ stream.normal(size=(3, PAIRS)) / np.sqrt(3)
    late = stream.permuted(np.tile(np.arange(PAIRS) < PAIRS // 2, (USERS, 1)), axis=1)
    after = np.where((np.arange(USERS) < turning)[:, None] & late, -taste, taste)
    first, second = (stream.random(t.shape) < 1 / (1 + np.exp(-t)) for t in (taste, after))
    return answers_of(first, second, np.where(late, LATE, 3))


def drifts(seed: int, turning: int) -> bool:
    """Whether the code of `palate agreement` finds drift."""
    report = retest_report(repeats(seed, turning))
    return report is not None and report.drifted == "found"


def main() -> int:
    """Print the shares; 1 where drift is found in under 0.9, or without any in over 0.06."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worlds", type=int, default=200)
    worlds = parser.parse_args().worlds
    shares = [np.mean([drifts(seed, turning) for seed in range(worlds)]) for turning in (20, 0)]
    rows = [[str(n), f"{share:.3f}"] for n, share in zip((20, 0), shares, strict=True)]
    table = Table(f"drift of {USERS} users, {worlds:,} worlds", ["turn", "found"], rows)
    sys.stdout.write(render([table], Form.MARKDOWN))
    return int(shares[0] < 0.9 or shares[1] > 0.06)


if __name__ == "__main__":
    sys.exit(main())
