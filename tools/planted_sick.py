"""Plant scorers that are sick in known ways, and healthy ones, and see which raise an alarm.

    python tools/planted_sick.py [SEEDS]
    python tools/planted_sick.py --runs FOLDER …

Each is evaluated on `tasting` under `profile:5`: 48 couples, 96 rows. A healthy one may raise no
alarm, a sick one has to raise its own. With `--runs` the finished runs at or under these folders
are held to the same: real scorers, of which none may raise any.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from hashlib import blake2b
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from palate.benchmarks import dataset_of
from palate.comparison import evaluate
from palate.contexts import build_context
from palate.records import (
    ContextInput,
    Judgement,
    Scorer,
    ScorerInfo,
    Scores,
    Settings,
    Shown,
    Slate,
    User,
    UserPool,
)
from palate.records.questions import Gold, QuestionView
from palate.reports.verdict import alarms_of
from palate.runs import load_runs
from palate.session import default_session

CONTEXT = "profile:5"
TASTING = dataset_of("tasting", 0)
SEEDS = 200
Number = Callable[[Slate, str], float | None]
"""From a slate and one of its responses to the score."""
Orders = Callable[[Slate], tuple[float, float]]


class Planted(NamedTuple):
    """A scorer of known health."""

    score: Number | None = None
    judge: Orders | None = None
    log_odds: bool = False
    alarms: frozenset[str] = frozenset()
    """Those that it has to raise, any of them; none of a healthy one."""


class PlantedScorer:
    """Scores as a function says."""

    def __init__(self, planted: Planted) -> None:
        assert planted.score is not None
        self.info = ScorerInfo(fingerprint="planted", log_odds=planted.log_odds)
        self._score = planted.score

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield a score per response."""
        for k, slate in enumerate(slates):
            values = tuple(self._score(slate, text) for text in slate.candidates)
            yield k, Scores(values=values)


class PlantedJudge:
    """Judges as a function says, in both orders."""

    def __init__(self, planted: Planted) -> None:
        assert planted.judge is not None
        self.info = ScorerInfo(fingerprint="planted", log_odds=planted.log_odds, pairs_only=True)
        self._judge = planted.judge

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        """Yield a judgement per slate."""
        for k, slate in enumerate(slates):
            orders = self._judge(slate)
            yield k, Judgement(margin=sum(orders) / 2, orders=orders)


class OnceShown:
    """The context `profile:5`, which looks for the posts of a row once and for all."""

    spec, oracle, empty = CONTEXT, False, False

    def __init__(self) -> None:
        self._context = build_context(CONTEXT, default_session(), Settings())
        self._shown: dict[tuple[str, str], Shown] = {}

    def shown(
        self, view: QuestionView, user: User, pool: UserPool, gold: Gold | None = None
    ) -> Shown:
        """Return what `profile:5` shows."""
        key = str(view), user.id
        if key not in self._shown:
            self._shown[key] = self._context.shown(*ContextInput(view, user, pool, gold))
        return self._shown[key]


CONTEXT_ONCE = OnceShown()


def noise(*parts: object) -> float:
    """Return a standard normal number that is a function of these."""
    digest = blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return NormalDist().inv_cdf((int.from_bytes(digest, "big") + 0.5) / 2**64)


def posts(slate: Slate) -> str:
    """Return what is shown."""
    return "\n".join(part.text for part in slate.shown)


def question(slate: Slate) -> str:
    """Return what is asked."""
    return slate.question[-1].content


def bfloat16(number: float) -> float:
    """Return the number to eight significant bits."""
    mantissa, exponent = math.frexp(number)
    return math.ldexp(round(mantissa * 256), exponent - 8)


@cache
def lengths() -> tuple[list[int], list[int]]:
    """Return, by row, the characters of question and shorter response, and of what precedes it."""
    shorter = [
        len(row.messages[-1].content) + min(len(row.chosen), len(row.rejected))
        for row in TASTING.pairs
    ]
    before = []
    for row in TASTING.pairs:
        pool = TASTING.user_pools()[row.subset].at(row.id, row.user_id)
        user = User(id=row.user_id, posts=row.profile)
        shown = CONTEXT_ONCE.shown(row.view, user, pool)
        before.append(
            sum(len(part.text) + 1 for part in shown.parts) + len(row.messages[-1].content)
        )
    return shorter, before


def sick(seed: int) -> dict[str, Planted]:
    """Return the sick ones, each with the alarms of which it has to raise one."""
    rng = np.random.default_rng([seed, 11])
    level, share = float(rng.normal()), float(rng.uniform(0.5, 1.0))
    window = int(np.quantile(lengths()[0], 1 - share))
    first = int(np.quantile(lengths()[1], 1 - share / 4 - 0.75))
    place = 1 if rng.random() < 0.5 else -1

    def read(slate: Slate, text: str) -> float:
        return noise(seed, posts(slate), question(slate), text)

    def last(slate: Slate, text: str) -> float:
        return noise(seed, f"{posts(slate)}\n{question(slate)}{text}"[-window:])

    def start(slate: Slate, text: str) -> float:
        return noise(seed, f"{posts(slate)}\n{question(slate)}{text}"[:first])

    def one_side(slate: Slate) -> tuple[float, float]:
        pull = place * (4 + share)
        margin = read(slate, slate.candidates[0]) - read(slate, slate.candidates[1])
        return margin + pull, margin - pull

    def squashed(slate: Slate, text: str) -> float:
        return 1 / (1 + math.exp(-12 * (1 + share) * read(slate, text)))

    def lost(slate: Slate, text: str) -> float | None:
        score = read(slate, text)
        return None if noise(seed, posts(slate), question(slate)) > 1 - share else score

    return {
        "constant": Planted(lambda slate, text: level, alarms=frozenset({"constant"})),
        "saturated": Planted(squashed, alarms=frozenset({"saturated"})),
        "labels for scores": Planted(
            lambda slate, text: float(read(slate, text) > level / 4),
            log_odds=True,
            alarms=frozenset({"coarse", "ties"}),
        ),
        "rounded to bfloat16": Planted(
            lambda slate, text: bfloat16(10 + 0.05 * read(slate, text)),
            log_odds=True,
            alarms=frozenset({"coarse", "ties"}),
        ),
        "blind to the user": Planted(
            lambda slate, text: noise(seed, question(slate), text), alarms=frozenset({"blind"})
        ),
        "length alone": Planted(
            lambda slate, text: len(text) + 5 * read(slate, text), alarms=frozenset({"length"})
        ),
        "one side always": Planted(judge=one_side, alarms=frozenset({"one side"})),
        "prompts cut at the start": Planted(last, alarms=frozenset({"blind", "cut"})),
        "prompts cut at the end": Planted(start, alarms=frozenset({"ties"})),
        "half of the rows lost": Planted(lost, alarms=frozenset({"unscored"})),
    }


def healthy(seed: int) -> dict[str, Planted]:
    """Return the healthy ones."""
    rng = np.random.default_rng([seed, 13])
    user, bias = float(10 ** rng.uniform(-4, 0.5)), float(rng.uniform(-1, 1))

    def read(slate: Slate, text: str) -> float:
        taste = noise(seed, "taste", posts(slate), question(slate), text)
        return noise(seed, question(slate), text) + user * taste

    def rating(slate: Slate, text: str) -> float:
        return float(min(max(round(5 + 1.5 * read(slate, text)), 1), 9))

    def orders(slate: Slate) -> tuple[float, float]:
        margin = read(slate, slate.candidates[0]) - read(slate, slate.candidates[1])
        first, second = (0.5 * noise(seed, k, posts(slate), question(slate)) for k in "ab")
        return margin + bias + first, margin - bias + second

    def words(slate: Slate) -> tuple[float, float]:
        first, second = orders(slate)
        return math.copysign(1, first), math.copysign(1, second)

    def overlap(slate: Slate, text: str) -> float:
        common = {*posts(slate).lower().split()} & {*text.lower().split()}
        return sum(len(word) > 3 + (bias > 0) for word in common) / len(text.split())

    return {
        "a score": Planted(read, log_odds=True),
        "a probability": Planted(lambda slate, text: 1 / (1 + math.exp(-2 * read(slate, text)))),
        "a score in bfloat16": Planted(
            lambda slate, text: bfloat16(read(slate, text)), log_odds=True
        ),
        "a score in float16": Planted(
            lambda slate, text: float(np.float16(read(slate, text))), log_odds=True
        ),
        "a rating from 1 to 9": Planted(rating),
        "pass or fail": Planted(lambda slate, text: float(read(slate, text) > bias / 2)),
        "words in common": Planted(overlap),
        "length, mostly": Planted(lambda slate, text: len(text) / 100 + read(slate, text)),
        "one row of twenty lost": Planted(
            lambda slate, text: None if noise(seed, 1, posts(slate)) > 1.64 else read(slate, text)
        ),
        "a judge in log-odds": Planted(judge=orders, log_odds=True),
        "a judge in words": Planted(judge=words),
    }


def raised(planted: Planted) -> frozenset[str]:
    """Return the checks that fail on `tasting`."""
    scorer: Scorer | PlantedJudge = (
        PlantedScorer(planted) if planted.judge is None else PlantedJudge(planted)
    )
    run = evaluate(TASTING, scorer, CONTEXT_ONCE, root=None, name="planted")
    return frozenset(alarm.check for alarm in run.summary.alarms)


def checks_of(seed: int) -> dict[str, tuple[bool, frozenset[str]]]:
    """Return of each planted scorer whether it is as it should be, and its alarms."""
    checks = {}
    for name, planted in {**sick(seed), **healthy(seed)}.items():
        alarms = raised(planted)
        checks[name] = bool(alarms & planted.alarms) if planted.alarms else not alarms, alarms
    return checks


def table(seeds: int, processes: int = 1) -> dict[str, tuple[int, Counter[str]]]:
    """Return of each planted scorer in how many seeds it is as it should be, and its alarms."""
    if processes > 1:
        with ProcessPoolExecutor(processes) as pool:
            by_seed = list(pool.map(checks_of, range(seeds), chunksize=4))
    else:
        by_seed = [checks_of(seed) for seed in range(seeds)]
    return {
        name: (
            sum(checks[name][0] for checks in by_seed),
            Counter(check for checks in by_seed for check in sorted(checks[name][1])),
        )
        for name in by_seed[0]
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, or the alarms of finished runs; 1 where one of these has any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("seeds", nargs="?", type=int, default=SEEDS)
    parser.add_argument("--runs", nargs="+", metavar="FOLDER", help="finished runs of real scorers")
    given = parser.parse_args(arguments)
    if given.runs:
        runs = load_runs(given.runs)
        found = [(run.cell, alarm) for run, alarm in alarms_of(runs)]
        for cell, alarm in found:
            sys.stdout.write(f"{' · '.join(cell)}: {alarm.check} ({alarm.n} of {alarm.of})\n")
        sys.stdout.write(f"{len(runs)} runs, {len(found)} alarms\n")
        return bool(found)
    sys.stdout.write("| planted | as it should be | alarms |\n|---|---|---|\n")
    for name, (right, alarms) in table(given.seeds, os.cpu_count() or 1).items():
        listed = ", ".join(f"{check} {n}" for check, n in alarms.items()) or "none"
        sys.stdout.write(f"| {name} | {right} of {given.seeds} | {listed} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
