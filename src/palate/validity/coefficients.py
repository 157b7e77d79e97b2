"""validity(runs, downstream) → validity coefficients: how a benchmark ranks what users get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count
from math import comb
from typing import NamedTuple

import numpy as np

from palate.errors import UsageError
from palate.metrics import holm
from palate.metrics.ranks import (
    AgreementDifference,
    RankAgreement,
    Resolution,
    agreement_differences,
    rank_agreement,
    resolution,
    scorers_needed_like,
    statistics,
)
from palate.metrics.ranks.statistics import RBO_P, Gain
from palate.runs import Run
from palate.validity.downstream_file import Downstream, joined
from palate.validity.figures import METRICS, Contestant
from palate.validity.matching import (
    Match,
    by_the_models_that_picked,
    match,
    refuse_other_questions,
    replicates,
    sides_of,
)

Progress = Callable[[int, int], None]
LEAST = 3
FEW = 10


class Statistics(NamedTuple):
    """What must be said with the rank statistics, and the seed of their draws."""

    rbo_p: float = RBO_P
    """Persistence of RBO."""
    gain: Gain = "shifted"
    """Of NDCG."""
    seed: int = 0


USUAL = Statistics()


@dataclass(frozen=True)
class Coefficients:
    """Validity coefficients: rank agreement of one benchmark figure with one measure of quality."""

    benchmark: str
    metric: str
    policy: str
    """Whose answers were picked from."""
    below: str
    """The benchmark that the answers are to."""
    quality: str
    surrogate: bool
    k: int
    n_samples: int
    contestants: tuple[Contestant, ...]
    """Those with both."""
    figures: tuple[float, ...]
    downstream: tuple[float, ...]
    unmoved: tuple[Contestant, ...]
    """Left out: blind to the user, they are at ½ in both figures by the law of couples."""
    units: int
    """Rows (or couples) that the figures rest on: those that count for every contestant."""
    of: int
    """That count for the contestant with the most."""
    fewest: Contestant
    """Who has the fewest."""
    agreements: tuple[RankAgreement, ...]
    p_holm: tuple[float | None, ...]
    """Of each agreement, Holm over the figures that should foretell the same quality."""
    resolution: Resolution
    """What so many scorers can show."""


@dataclass(frozen=True)
class Difference:
    """Coefficients of two figures for the same quality, over the contestants that have both."""

    first: tuple[str, str]
    """Benchmark and metric."""
    second: tuple[str, str]
    policy: str
    below: str
    quality: str
    k: int
    n: int
    differences: tuple[AgreementDifference, ...]
    p_holm: float | None
    """Of the difference in Kendall's τ, Holm over all pairs of figures for the same quality."""
    between: float | None
    """Kendall's τ of the two figures with each other."""
    needed: int | None
    """Scorers like these that would tell two such τ apart; None where they are equal, undefined, or
    so alike that over a million would be needed."""


class Validity(NamedTuple):
    """Everything `palate validity` prints."""

    coefficients: tuple[Coefficients, ...]
    differences: tuple[Difference, ...]
    too_few: tuple[str, ...]
    """Figures that fewer than three contestants have, and how many do."""
    only_above: tuple[Contestant, ...]
    """Contestants with a benchmark run and no downstream result."""
    only_below: tuple[Contestant, ...]
    """Contestants with a downstream result and no benchmark run."""
    blind: tuple[str, ...]
    """Scorers that ran under several contexts and did not heed them: one contestant each."""


def validity(
    runs: Sequence[Run],
    downstream: Sequence[Downstream],
    *,
    metrics: Sequence[str] = METRICS,
    how: Statistics = USUAL,
    progress: Progress = lambda done, total: None,
) -> Validity:
    """Compare what benchmark runs say of scorers with the quality of what these pick.

    A contestant is a scorer under a context; runs and downstream results are matched by both specs.
    A scorer whose margins are the same under a context as under `none` is one contestant, with the
    gains of 0 that it has there. Results of several files on the same answers are joined.

    Raises:
        UsageError: for a metric that is not known, or where no figure has three contestants.
        ComparisonError: for runs of other rows, one contestant twice, downstream results that bear
            a benchmark's name and are of other questions, or that another model's picks gave.
    """
    unknown = [one for one in metrics if one not in METRICS]
    if unknown:
        raise UsageError(f"validity: {unknown[0]}: expected one of {', '.join(METRICS)}")
    downstream = joined(downstream)
    runs = by_the_models_that_picked(runs, downstream)
    by_benchmark: dict[str, list[Run]] = {}
    for run in runs:
        by_benchmark.setdefault(run.summary.benchmark, []).append(run)
    for below in downstream:
        refuse_other_questions(by_benchmark.get(below.benchmark, ()), below)
    sides = sides_of(by_benchmark, metrics)
    by_measure = [
        [one for side in sides if (one := match(side, below)) is not None] for below in downstream
    ]
    few = [
        f"{one.metric} on {one.benchmark}: {len(one.contestants)} contestants"
        for matches in by_measure
        for one in matches
        if len(one.contestants) < LEAST
    ]
    able = [[one for one in some if len(one.contestants) >= LEAST] for some in by_measure]
    total = sum(len(some) + comb(len(some), 2) for some in able)
    steps = count(1)

    def step() -> None:
        progress(next(steps), total)

    found = [one for some in able for one in _all_coefficients(some, how, step)]
    differences = [one for some in able for one in _differences(some, how, step)]
    if not found:
        raise UsageError(
            f"validity: no figure has {LEAST} contestants with downstream results"
            + (f" ({'; '.join(dict.fromkeys(few))})" if few else "")
            + "; are scorers and contexts spelt alike?"
        )
    above = {(r.summary.scorer, r.summary.context) for r in runs if not r.summary.oracle}
    known = {one for results in downstream for one in results.values}
    twins = {twin for side in sides for twin in side.same}
    return Validity(
        coefficients=tuple(found), differences=tuple(differences),
        too_few=tuple(dict.fromkeys(few)),
        only_above=tuple(sorted(above - known - twins)), only_below=tuple(sorted(known - above)),
        blind=tuple(sorted({scorer for scorer, _ in twins & known})),
    )  # fmt: skip


def _all_coefficients(
    matches: Sequence[Match], how: Statistics, step: Callable[[], None]
) -> list[Coefficients]:
    found = []
    for one in matches:
        found.append(_coefficients(one, how))
        step()
    corrected = [
        holm([one.agreements[at].chance.p for one in found])
        for at in range(len(found[0].agreements) if found else 0)
    ]
    return [replace(one, p_holm=tuple(own[k] for own in corrected)) for k, one in enumerate(found)]


def _coefficients(one: Match, how: Statistics) -> Coefficients:
    x, y = _columns(one, one.contestants)
    below, (noise,) = one.below, replicates([one], one.contestants)
    return Coefficients(
        benchmark=one.benchmark, metric=one.metric, policy=below.policy, below=below.benchmark,
        quality=below.quality, surrogate=below.surrogate, k=below.k, n_samples=below.n,
        contestants=tuple(one.contestants), figures=tuple(x), downstream=tuple(y),
        unmoved=one.unmoved, units=one.held.units, of=one.held.of, fewest=one.held.fewest,
        agreements=rank_agreement(
            x, y, replicates=noise, rbo_p=how.rbo_p, gain=how.gain, seed=how.seed
        ),
        p_holm=(), resolution=resolution(len(x), seed=how.seed),
    )  # fmt: skip


def _differences(
    matches: Sequence[Match], how: Statistics, step: Callable[[], None]
) -> list[Difference]:
    found = []
    for first, second in combinations(matches, 2):
        difference = _difference(first, second, how)
        step()
        if difference is not None:
            found.append(difference)
    corrected = holm([one.differences[0].p for one in found])
    return [replace(one, p_holm=p) for one, p in zip(found, corrected, strict=True)]


def _difference(first: Match, second: Match, how: Statistics) -> Difference | None:
    common = [one for one in first.contestants if one in second.held.figures]
    if len(common) < LEAST:
        return None
    (ours, y), (theirs, _) = _columns(first, common), _columns(second, common)
    noise = replicates([first, second], common)
    found = agreement_differences(
        ours, theirs, y, replicates=(noise[0], noise[1]), same_users=noise[0].same_users,
        rbo_p=how.rbo_p, gain=how.gain, seed=how.seed,
    )  # fmt: skip
    between = float(statistics()[0](np.array([ours]), np.array([theirs]))[0])
    below = first.below
    return Difference(
        first=(first.benchmark, first.metric), second=(second.benchmark, second.metric),
        policy=below.policy, below=below.benchmark, quality=below.quality, k=below.k,
        n=len(common), differences=found, p_holm=None,
        between=None if np.isnan(between) else between,
        needed=scorers_needed_like(ours, theirs, y, seed=how.seed),
    )  # fmt: skip


def _columns(one: Match, common: Sequence[Contestant]) -> tuple[list[float], list[float]]:
    quality = one.below.figures
    return [one.held.figures[c].value for c in common], [quality[c].value for c in common]
