"""Plant margins and rounding errors of known size, and see what palate makes of them.

    python tools/planted_rounding.py [SEEDS]

Every world has 48 mirrored couples of 32 users, one scorer under `none`, `profile:3` and
`stranger:3`, and a sample of 16 rows in float32. A margin is what all users share about the two
answers, plus a taste of the row's own, plus the gain where the user's own posts are shown; all but
the gain are standard normal. In half precision an error is added to it, of the same standard
deviation in every row, or in each row of its own (`unequal`: log-normal, as where answers differ in
length). What palate's own summaries, gains and findings say is then compared with float32's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from palate.comparison import Grid, findings_of, gains_of
from palate.evaluation import summarise
from palate.records import Judgement
from palate.runs import Noise, Run, VerdictRow, Verdicts, noise_of

COUPLES, USERS, SAMPLED = 48, 32, 8
CONTEXTS = ("none", "profile:3", "profile:3?of=stranger")
Doubles = NDArray[np.float64]


class World(NamedTuple):
    """How large things are, margins within a context having a standard deviation of √2."""

    gain: float
    """By how much the user's own posts raise what they chose."""
    error: float
    """Standard deviation of a margin's rounding error."""
    unequal: bool = False


class Seen(NamedTuple):
    """What one seed gave."""

    float32: str
    half: str
    """Findings, the second with half precision's sample beside it."""
    unguarded: str
    """And without."""
    sd: tuple[float, ...]
    """Reported of each context, over the planted one."""
    expected: float
    flips: int
    verdicts: int


def seen(world: World, seed: int) -> Seen:
    """Return what palate says of one world."""
    rng = np.random.default_rng([seed, 7])
    pairs = [rng.choice(USERS, 2, replace=False) for _ in range(COUPLES)]
    shared = rng.standard_normal(COUPLES)
    exact, half, guarded, sizes = [], [], [], []
    drawn = rng.choice(COUPLES, SAMPLED, replace=False)
    sample = np.sort(np.concatenate([2 * drawn, 2 * drawn + 1]))
    flips, expected = 0, 0.0
    for context in CONTEXTS:
        gain = world.gain if context == "profile:3" else 0.0
        margins = np.stack([shared, -shared], axis=1) + rng.standard_normal((COUPLES, 2)) + gain
        error = world.error * rng.standard_normal((COUPLES, 2))
        if world.unequal:
            error *= rng.lognormal(-0.125, 0.5, (COUPLES, 2))
        first = _verdicts(margins + error, pairs)
        again = _verdicts(margins, pairs)
        noise = noise_of(first, again.take(sample), "rounding", "bfloat16")
        exact.append(_run(context, again))
        half.append(_run(context, first))
        guarded.append(_run(context, first, noise, again.take(sample)))
        # Of a normal error; unequal ones have no single size.
        sizes.append((noise.sd or 0.0) / world.error)
        flips += int(np.count_nonzero(first.values != again.values))
        expected += noise.expected_flips or 0.0
    return Seen(
        *(_word(runs) for runs in (exact, guarded, half)),
        tuple(sizes),
        expected,
        flips,
        2 * COUPLES * len(CONTEXTS),
    )


def _word(runs: list[Run]) -> str:
    grid = Grid(tuple(runs), (), tuple(gains_of(runs)))
    return next(f.word for f in findings_of(grid) if f.context == "profile:3")


def _run(
    context: str, verdicts: Verdicts, noise: Noise | None = None, again: Verdicts | None = None
) -> Run:
    summary = summarise(
        verdicts, benchmark="planted", scorer="lift:./planted", context=context, noise=noise
    )
    return Run(summary, verdicts, again=again)


def _verdicts(margins: Doubles, pairs: list[NDArray[np.int64]]) -> Verdicts:
    return Verdicts(_rows(margins, pairs))


def _rows(margins: Doubles, pairs: list[NDArray[np.int64]]) -> Iterator[VerdictRow]:
    for couple, (both, users) in enumerate(zip(margins, pairs, strict=True)):
        for side in (0, 1):
            verdict = Judgement(margin=float(both[side])).verdict(0)
            texts = VerdictRow.hash_of(f"{couple}a"), VerdictRow.hash_of(f"{couple}b")
            yield VerdictRow(
                id=f"{couple:03}{'ab'[side]}",
                content_hash=f"{couple}{side}",
                question_hash=VerdictRow.hash_of(str(couple)),
                response_hashes=texts if side == 0 else texts[::-1],
                user=f"u{users[side]}",
                subset="",
                mirror_of=f"{couple:03}{'ba'[side]}",
                outcome=verdict.outcome,
                margin=verdict.margin,
                own_words=9,
                lengths=(9, 9),
            )


class Tally(NamedTuple):
    """What many seeds of one world say."""

    world: World
    n: int
    sd: float
    """Mean reported standard deviation over the planted one."""
    flips: int
    expected: float
    low: int
    high: int
    """The binomial 99 % interval of flips at the expected rate."""
    rounding: tuple[int, int]
    """Of unguarded *yes* that float32 does not say: those that read *rounding*, and all."""
    real: tuple[int, int]
    """Of float32's *yes*: those that read *yes*, and all."""


def tally(world: World, seeds: range) -> Tally:
    """Return what these seeds of a world say."""
    every = [seen(world, seed) for seed in seeds]
    verdicts = sum(each.verdicts for each in every)
    expected = sum(each.expected for each in every)
    low, high = binom.interval(0.99, verdicts, expected / verdicts)
    false = [each for each in every if each.unguarded == "yes" != each.float32]
    true = [each for each in every if each.float32 == "yes"]
    return Tally(
        world,
        len(every),
        float(np.mean([each.sd for each in every])),
        sum(each.flips for each in every),
        expected,
        int(low),
        int(high),
        (sum(each.half == "rounding" for each in false), len(false)),
        (sum(each.half == "yes" for each in true), len(true)),
    )


BORDERLINE = [World(0.5, error) for error in (0.1, 0.2, 0.4)]
"""Gains that float32 finds about half of the time."""
CLEAR = [World(1.3, error) for error in (0.1, 0.2, 0.4)]
UNEQUAL = [World(0.5, 0.2, True), World(1.3, 0.2, True)]


def main() -> None:
    """Print a table."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    head = (
        "gain",
        "error",
        "sd, reported/planted",
        "flips",
        "expected [99 %]",
        "yes that is rounding reads rounding",
        "real yes reads yes",
    )
    sys.stdout.write(f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n")
    for world in (*BORDERLINE, *CLEAR, *UNEQUAL):
        it = tally(world, range(seeds))
        name = f"{world.error}{' unequal' if world.unequal else ''}"
        cells = (
            str(world.gain),
            name,
            f"{it.sd:.2f}",
            str(it.flips),
            f"{it.expected:.0f} [{it.low}, {it.high}]",
            "{} of {}".format(*it.rounding),
            "{} of {}".format(*it.real),
        )
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
