"""Whether agreement's tests and intervals hold on ratings from 1 to 5 with planted truths.

    python tools/study_cover.py [--worlds 2000] [--seed 0] [--apart 2.8]

100 pairs are rated by three of 3, 6, 12 or 24 raters each, who differ by 0.08 or 0.3 points;
*early*: half of them stop after a third of their list. Ratings are rounded and clipped, and the
true difference of these is 0, or exactly the margin. The exit status is 1 where

- equivalence is shown at the margin in more than 0.06 of the worlds;
- the power of a full panel is over 0.05 below or 0.1 above what a plan prints;
- an interval of α holds the true α in less than 0.92;
- panels of whom a part answers 3 and 3, or at random, call a difference of 0.5 equivalent in more
  than 0.06.

What is planted bears on the figures, and a plan knows nothing of it:

- Ratings lie around 3.7, where rounding and clipping shrink a planted 0.25 to 0.231, as measured
  of such scales. Truths are computed on the ratings, so at the margin is at the margin.
- In the first table nobody fails a check. Where honest raters slip at 0.06 of their checks, 0.02 of
  them are excluded, and power falls by 0.01 to 0.02.
- Checks are rated 2.8 points apart. Three raters have little to show that by: at 2 points their
  power is 0.31 in the place of 0.37, at 1.5 points 0.19 (planned: 0.41, spread 0.08). From six
  raters on it stays the same. Who stops early has met all checks here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from palate.metrics import Clusters, equivalence_power, rater_agreement
from palate.reports import Form, Table, render
from palate.seeding import rng
from palate.study import DIMENSIONS
from palate.study.panels import RatingDifference, equal_quality

RATERS, SPREADS = (3, 6, 12, 24), (0.08, 0.3)
PAIRS, PER_PAIR, MARGIN = 100, 3, 0.25
NOISE, PAIR_SD = 0.9, 0.5
LEVEL, LEVEL_SD, LENIENCY = 3.7, 0.6, 0.2
"""Of both answers: where their ratings lie, and how pairs and raters differ in that. Rounding and
clipping then make a planted 0.25 to 0.231."""
CHECKS, MOST_FAILED, SLIP, SEEN = 4, 1, 0.06, 2.8
"""Checks of each rater, how often one who looks fails one, where others do not look, and how far
apart they are rated."""
TIE = 0.4
"""A rater has no preference below so many points."""
MOST_WRONG, LEAST_COVER, BELOW, ABOVE = 0.06, 0.92, 0.05, 0.1
CLICKED = (0.0, 0.25, 0.5, 0.75, 1.0)
DIFFERENCE = 0.5
SCALES = {"choices": "nominal", "ratings, ordinal": "ordinal", "ratings, interval": "interval"}


class World(NamedTuple):
    """What raters of one panel answer; a row an answer."""

    rater: np.ndarray
    pair: np.ndarray
    ratings: np.ndarray
    """Of the chosen and of the rejected answer."""
    choice: np.ndarray
    """1 for the chosen answer, 0 for no difference, -1 for the rejected one."""
    checks: np.ndarray
    """raters × checks: rating of the expected answer less that of the other."""
    excluded: np.ndarray
    """By rater."""

    def tested(self, margin: float, *, everybody: bool = False) -> bool:
        """Whether the panel calls the answers equally good, by the code of `palate agreement`."""
        counts = np.ones_like(self.excluded) if everybody else ~self.excluded
        apart = self.ratings[:, 0] - self.ratings[:, 1]
        rows = counts[self.rater]
        columns = (apart[rows], self.rater[rows], self.pair[rows])
        pairs = [RatingDifference(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]
        n_checks = max(CHECKS, -(-self.excluded.size * CHECKS // PER_PAIR))
        checks = [
            RatingDifference(float(self.checks[r, k]), int(r), int(r * CHECKS + k) % n_checks)
            for r in np.flatnonzero(counts)
            for k in range(CHECKS)
        ]
        return equal_quality(pairs, checks, DIMENSIONS[0], margin)[0].finding == "equivalent"


def mean_rating(latent: np.ndarray | float, spread: float) -> float:
    """Mean of ratings whose latent value is normal, rounded and clipped to 1 to 5."""
    steps = np.arange(1.5, 5)
    return float(1 + (1 - ndtr((steps - latent) / spread)).sum())


def true_difference(planted: float, spread: float) -> float:
    """Mean difference of the ratings where that of the latent ones is planted."""
    sides = LEVEL_SD**2 + LENIENCY**2 + (spread**2 + PAIR_SD**2) / 4 + NOISE**2 / 2
    high, low = (mean_rating(LEVEL + sign * planted / 2, sides**0.5) for sign in (1, -1))
    return high - low


def planted_for(truth: float, spread: float) -> float:
    """Return the latent difference at which the ratings' true difference is so large."""
    return float(brentq(lambda d: true_difference(d, spread) - truth, 0, 3)) if truth else 0.0


def listed(raters: int, stream: np.random.Generator, *, early: bool) -> tuple[np.ndarray, ...]:
    """Return rater and pair of each answer: three a pair, those first who have the fewest."""
    load, chosen = np.zeros(raters), []
    for _ in range(PAIRS):
        who = np.argsort(load + stream.random(raters))[:PER_PAIR]
        load[who] += 1
        chosen.append(who)
    rater, pair = np.concatenate(chosen), np.repeat(np.arange(PAIRS), PER_PAIR)
    if early:
        place = np.zeros(rater.size)
        for r in range(raters):
            rows = np.flatnonzero(rater == r)
            place[rows] = stream.permutation(rows.size) / rows.size
        stays = (rater >= raters // 2) | (place < 1 / 3)
        rater, pair = rater[stays], pair[stays]
    return rater, pair


def values_of(
    rater: np.ndarray, pair: np.ndarray, planted: float, spread: float, stream: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw ratings of both answers, and the choice between them."""
    raters, pairs = int(rater.max()) + 1, int(pair.max()) + 1
    apart = planted + stream.normal(0, spread, raters)[rater]
    apart += stream.normal(0, PAIR_SD, pairs)[pair]
    level = LEVEL + stream.normal(0, LEVEL_SD, pairs)[pair]
    level += stream.normal(0, LENIENCY, raters)[rater]
    noise = stream.normal(0, NOISE / 2**0.5, (rater.size, 2))
    latent = level[:, None] + apart[:, None] * np.array([0.5, -0.5]) + noise
    gap = latent[:, 0] - latent[:, 1]
    choice = np.where(np.abs(gap) < TIE, 0, np.sign(gap))
    return np.clip(np.round(latent), 1, 5), choice


def world(
    raters: int,
    spread: float,
    planted: float,
    stream: np.random.Generator,
    *,
    early: bool = False,
    clicking: float = 0.0,
    at_random: bool = False,
    apart: float = SEEN,
) -> World:
    """Draw one panel; of those who click, ratings are 3 and 3, or random, and so are choices."""
    rater, pair = listed(raters, stream, early=early)
    ratings, choice = values_of(rater, pair, planted, spread, stream)
    checks = np.clip(np.round(stream.normal(apart, NOISE, (raters, CHECKS))), -4, 4)
    failed = np.zeros((raters, CHECKS), dtype=bool)
    clicks = np.arange(raters) < round(clicking * raters)
    if clicks.any():
        failed = stream.random((raters, CHECKS)) < SLIP
        rows, size = clicks[rater], (raters, CHECKS, 2)
        drawn = stream.integers(1, 6, (rater.size, 2)) if at_random else np.full((rater.size, 2), 3)
        ratings[rows], choice[rows] = drawn[rows], stream.choice((-1, 1), rater.size)[rows]
        shown = stream.integers(1, 6, size) if at_random else np.full(size, 3)
        checks[clicks] = (shown[..., 0] - shown[..., 1])[clicks]
        failed[clicks] = stream.random((raters, CHECKS))[clicks] < 0.5
    return World(rater, pair, ratings, choice, checks, failed.sum(axis=1) > MOST_FAILED)


def alphas(drawn: World, stream: np.random.Generator) -> Iterator[tuple[str, float, float]]:
    """Yield α of choices and of ratings: of what, and both ends of its interval."""
    side = stream.choice((-1, 1), PAIRS)[drawn.pair]
    both = np.repeat(drawn.pair, 2) * 2 + np.tile([0, 1], drawn.pair.size)
    rows = Clusters.of(drawn.rater, questions=drawn.pair)
    twice = Clusters.of(np.repeat(drawn.rater, 2), questions=np.repeat(drawn.pair, 2))
    for name, scale in SCALES.items():
        if scale == "nominal":
            e = rater_agreement(drawn.choice * side, drawn.pair, rows, both_orders=True)
        else:
            e = rater_agreement(drawn.ratings.ravel(), both, twice, measure=scale)
        if e.low is not None and e.high is not None:
            yield name, e.low, e.high


def true_alphas(
    spread: float, planted: float, seed: int, draws: int = 1_000_000
) -> dict[str, float]:
    """α of two raters of very many pairs, no two pairs of the same raters."""
    stream = rng("true alpha", seed, spread, planted)
    rater, pair = np.arange(2 * draws), np.repeat(np.arange(draws), 2)
    ratings, choice = values_of(rater, pair, planted, spread, stream)
    return {
        "choices": _alpha(np.stack([choice, -choice], axis=1), "nominal"),
        **{name: _alpha(ratings, scale) for name, scale in SCALES.items() if scale != "nominal"},
    }


def _alpha(values: np.ndarray, scale: str) -> float:
    """Of the two raters of each pair; rows 2k and 2k + 1 are theirs, columns are units."""
    scores, code = np.unique(values, return_inverse=True)
    code = code.reshape(values.shape)
    share = np.bincount(code.ravel(), minlength=scores.size) / code.size
    ranks = np.cumsum(share) - share / 2 if scale == "ordinal" else scores
    apart = (ranks[:, None] - ranks) ** 2
    if scale == "nominal":
        apart = (apart > 0).astype(float)
    return float(1 - apart[code[::2], code[1::2]].mean() / (share @ apart @ share))


def panels(worlds: int, seed: int, apart: float) -> Iterator[tuple[list[str], list[str]]]:
    """Yield a line of each kind of panel, and what does not hold of it."""
    for spread in SPREADS:
        at_margin, truths = planted_for(MARGIN, spread), true_alphas(spread, 0.0, seed)
        for raters in RATERS:
            options = {"margin": MARGIN, "rater_sd": spread, "noise_sd": NOISE, "pair_sd": PAIR_SD}
            planned = equivalence_power(raters, PAIRS, PER_PAIR, **options)
            for early in (False, True):
                stream = rng("study cover", seed, raters, spread, early)
                planted = (at_margin, 0.0)
                shown = np.zeros(2)
                held: dict[str, list[bool]] = {name: [] for name in SCALES}
                for _ in range(worlds):
                    drawn = [
                        world(raters, spread, each, stream, early=early, apart=apart)
                        for each in planted
                    ]
                    shown += [each.tested(MARGIN) for each in drawn]
                    for name, low, high in alphas(drawn[1], stream):
                        held[name].append(low <= truths[name] <= high)
                wrong, power = shown / worlds
                covers = [float(np.mean(held[name])) for name in SCALES]
                broken = [
                    *(["shown at the margin"] if wrong > MOST_WRONG else []),
                    *(
                        ["power"]
                        if not early and not planned - BELOW <= power <= planned + ABOVE
                        else []
                    ),
                    *(["cover of α"] if min(covers) < LEAST_COVER else []),
                ]
                line = [str(raters), "early" if early else "full", f"{spread:g}", f"{wrong:.3f}"]
                line += [f"{power:.3f}", "" if early else f"{planned:.3f}"]
                line += [f"{cover:.3f}" for cover in covers]
                yield line, [f"{raters} raters, {spread:g}, {line[1]}: {what}" for what in broken]


def clickers(worlds: int, seed: int, raters: int = 12) -> Iterator[tuple[list[str], list[str]]]:
    """Yield how often a difference of 0.5 is called equivalent where some do not look."""
    spread = SPREADS[0]
    planted = planted_for(DIFFERENCE, spread)
    for share in CLICKED:
        line = [f"{share:.0%}"]
        for at_random in (False, True):
            stream = rng("clickers", seed, share, at_random)
            drawn = [
                world(raters, spread, planted, stream, clicking=share, at_random=at_random)
                for _ in range(worlds)
            ]
            line += [
                f"{np.mean([it.tested(MARGIN, everybody=everybody) for it in drawn]):.3f}"
                for everybody in (False, True)
            ]
        broken = any(float(cell) > MOST_WRONG for cell in line[1:])
        yield line, [f"{line[0]} click: called equivalent"] if broken else []


def tables(worlds: int, seed: int = 0, apart: float = SEEN) -> tuple[list[Table], list[str]]:
    """Return both tables, and what does not hold."""
    drawn: list[list[tuple[list[str], list[str]]]] = [
        [*panels(worlds, seed, apart)], [*clickers(worlds, seed)]
    ]  # fmt: skip
    rows = [[line for line, _ in lines] for lines in drawn]
    broken = [what for lines in drawn for _, each in lines for what in each]
    columns = ["raters", "panel", "raters' sd", "wrong at the margin", "power", "planned"]
    columns += [f"α covers: {name}" for name in SCALES]
    clicked: Sequence[str] = ["do not look", "3 and 3", "with the excluded", "at random"]
    title = f"{worlds:,} worlds a cell, {PAIRS} pairs × {PER_PAIR}, margin {MARGIN:g}"
    return [
        Table(title, columns, rows[0], (), 2),
        Table("12 raters, a difference of 0.5 called equivalent",
              [*clicked, "random, with the excluded"], rows[1]),
    ], broken  # fmt: skip


def main() -> int:
    """Print the tables; 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worlds", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--apart", type=float, default=SEEN, help="points between rated checks")
    given = parser.parse_args()
    drawn, broken = tables(given.worlds, given.seed, given.apart)
    sys.stdout.write(render(drawn, Form.MARKDOWN))
    sys.stdout.write("".join(f"broken: {what}\n" for what in broken) or "All hold.\n")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
