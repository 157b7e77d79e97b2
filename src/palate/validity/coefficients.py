"""validity(runs, downstream) → validity coefficients: how a benchmark ranks what users get."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from palate.errors import UsageError
from palate.metrics import holm
from palate.metrics.ranks import (
    RankAgreement,
    Reliability,
    Resolution,
    rank_agreement,
    reliability,
    resolution,
)
from palate.runs import Run
from palate.validity.differences import Difference, Statistics, compared, differences_of
from palate.validity.downstream_file import Downstream, joined
from palate.validity.figures import METRICS, Contestant
from palate.validity.matching import (
    LEAST,
    Match,
    by_the_models_that_picked,
    match,
    refuse_other_questions,
    sides_of,
)

Progress = Callable[[int, int], None]
FEW = 10
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
    """Of each agreement, Holm over the figures that should predict the same quality."""
    reliability: Reliability | None
    """Of the benchmark's figures."""
    downstream_reliability: Reliability | None
    noise_ceiling: float | None
    """``√(r_x r_y)`` of the two reliabilities: the most that noise leaves to find."""
    resolution: Resolution
    """What so many scorers can show."""


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
    pairs = compared(able[0]) if able else []
    total = sum(map(len, able)) + bool(pairs)
    steps = count(1)

    def step() -> None:
        progress(next(steps), total)

    found = [one for some in able for one in _all_coefficients(some, how, step)]
    differences = differences_of(pairs, how)
    if pairs:
        step()
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
        coefficients=tuple(found), differences=differences,
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


def _coefficients(matched: Match, how: Statistics) -> Coefficients:
    below, (table, of, fewest) = matched.below, matched.aligned
    quality = below.table(matched.contestants)
    x, y = list(table.figures.values()), list(quality.figures.values())
    known = reliability(table.values, table.clusters)
    picked = reliability(quality.values, quality.clusters)
    return Coefficients(
        benchmark=matched.benchmark, metric=matched.metric, policy=below.policy,
        below=below.benchmark, quality=below.quality, surrogate=below.surrogate, k=below.k,
        n_samples=below.n, contestants=matched.contestants, figures=tuple(x), downstream=tuple(y),
        unmoved=matched.unmoved, units=len(table.clusters), of=of, fewest=fewest,
        agreements=rank_agreement(x, y, rbo_p=how.rbo_p, gain=how.gain, seed=how.seed),
        p_holm=(), reliability=known, downstream_reliability=picked,
        noise_ceiling=None
        if known is None or picked is None
        else math.sqrt(known.value * picked.value),
        resolution=resolution(len(x), seed=how.seed),
    )  # fmt: skip
