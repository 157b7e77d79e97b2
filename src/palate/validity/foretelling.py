"""validity(runs, downstream) → how well each benchmark figure ranks what users get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from palate.errors import ComparisonError, UsageError
from palate.metrics.ranks import (
    AgreementDifference,
    RankAgreement,
    Replicates,
    Resolution,
    agreement_differences,
    rank_agreement,
    resolution,
    scorers_needed,
)
from palate.runs import Run
from palate.validity.downstream_file import Downstream
from palate.validity.figures import (
    METRICS,
    Contestant,
    Figures,
    benchmark_figures,
    same_as_none,
)

LEAST = 3
FEW = 10
LARGEST_TAU = 0.95
LEAST_SHARED = 0.5


class Foretelling(NamedTuple):
    """One figure of a benchmark against one measure of quality, over contestants with both."""

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
    figures: tuple[float, ...]
    downstream: tuple[float, ...]
    agreements: tuple[RankAgreement, ...]
    resolution: Resolution
    """What so many scorers can show."""


class Rival(NamedTuple):
    """Two figures that should foretell the same quality, over the contestants that have both."""

    first: tuple[str, str]
    """Benchmark and metric."""
    second: tuple[str, str]
    policy: str
    below: str
    quality: str
    n: int
    differences: tuple[AgreementDifference, ...]
    needed: int | None
    """Scorers that would tell the two observed τ apart; None where they are equal or extreme."""


class Validity(NamedTuple):
    """Everything `palate validity` prints."""

    foretellings: tuple[Foretelling, ...]
    rivals: tuple[Rival, ...]
    too_few: tuple[str, ...]
    """Figures that fewer than three contestants have, and how many do."""
    only_above: tuple[Contestant, ...]
    """Contestants with a benchmark run and no downstream result."""
    only_below: tuple[Contestant, ...]
    """Contestants with a downstream result and no benchmark run."""
    blind: tuple[str, ...]
    """Scorers that ran under several contexts and did not heed them: one contestant each."""


class _Side(NamedTuple):
    benchmark: str
    metric: str
    figures: Mapping[Contestant, Figures]
    same: Mapping[Contestant, Contestant]
    """Contestants that are another one of these again."""

    def once(self, below: Downstream) -> _Side:
        """Return the side with every contestant once, under a name that both sides know."""
        found = dict(self.figures)
        for twin, first in self.same.items():
            if first in below.figures and twin in found:
                found.setdefault(first, found[twin])
                del found[twin]
        return self._replace(figures=found)


def validity(
    runs: Sequence[Run],
    downstream: Sequence[Downstream],
    *,
    metrics: Sequence[str] = METRICS,
    seed: int = 0,
) -> Validity:
    """Compare what benchmark runs say of scorers with the quality of what these pick.

    A contestant is a scorer under a context; runs and downstream results are matched by both specs.
    A scorer whose margins are the same under a context as under `none` is one contestant, with the
    gains of 0 that it has there.

    Raises:
        UsageError: for a metric that is not known, or where no figure has three contestants.
        ComparisonError: for runs of other rows, one contestant twice, or downstream results that
            bear a benchmark's name and are of other questions.
    """
    unknown = [one for one in metrics if one not in METRICS]
    if unknown:
        raise UsageError(f"validity: {unknown[0]}: expected one of {', '.join(METRICS)}")
    by_benchmark: dict[str, list[Run]] = {}
    for run in runs:
        by_benchmark.setdefault(run.summary.benchmark, []).append(run)
    for below in downstream:
        _refuse_other_questions(by_benchmark.get(below.benchmark, ()), below)
    same = {name: same_as_none(own) for name, own in by_benchmark.items()}
    sides = [
        _Side(name, metric, benchmark_figures(own, metric), same[name])
        for name, own in by_benchmark.items()
        for metric in metrics
    ]
    found, rivals, few = [], [], []
    for below in downstream:
        able = []
        for side in (one.once(below) for one in sides):
            common = _common(side.figures, below.figures)
            if len(common) < LEAST:
                if common:
                    few.append(f"{side.metric} on {side.benchmark}: {len(common)} contestants")
                continue
            able.append(side)
            found.append(_foretelling(side, below, common, seed))
        rivals += [
            rival
            for first, second in combinations(able, 2)
            if (rival := _rival(first, second, below, seed)) is not None
        ]
    if not found:
        raise UsageError(
            f"validity: no figure has {LEAST} contestants with downstream results"
            + (f" ({'; '.join(few)})" if few else "; are scorers and contexts spelt alike?")
        )
    above = {(r.summary.scorer, r.summary.context) for r in runs if not r.summary.oracle}
    known = {one for results in downstream for one in results.figures}
    twins = {twin for own in same.values() for twin in own}
    return Validity(
        foretellings=tuple(found), rivals=tuple(rivals), too_few=tuple(dict.fromkeys(few)),
        only_above=tuple(sorted(above - known - twins)), only_below=tuple(sorted(known - above)),
        blind=tuple(sorted({scorer for scorer, _ in twins & known})),
    )  # fmt: skip


def _refuse_other_questions(runs: Sequence[Run], below: Downstream) -> None:
    for run in runs:
        ids = {row for row, _ in run.verdicts.keys}
        shared = len(ids & below.rows)
        if shared < LEAST_SHARED * min(len(ids), len(below.rows)):
            raise ComparisonError(
                f"validity: {run.summary.scorer} ran on {len(ids):,} rows of "
                f"{below.benchmark}, of which the downstream results have {shared:,}; they are of "
                "other questions"
            )


def _foretelling(
    side: _Side, below: Downstream, common: Sequence[Contestant], seed: int
) -> Foretelling:
    x, y = _values(side.figures, common), _values(below.figures, common)
    return Foretelling(
        benchmark=side.benchmark, metric=side.metric, policy=below.policy, below=below.benchmark,
        quality=below.quality, surrogate=below.surrogate, k=below.k, n_samples=below.n,
        contestants=tuple(common), figures=tuple(x), downstream=tuple(y),
        agreements=rank_agreement(x, y, replicates=_replicates(side, below, common), seed=seed),
        resolution=resolution(len(common), seed=seed),
    )  # fmt: skip


def _rival(first: _Side, second: _Side, below: Downstream, seed: int) -> Rival | None:
    common = [one for one in _common(first.figures, below.figures) if one in second.figures]
    if len(common) < LEAST:
        return None
    ours, theirs = _values(first.figures, common), _values(second.figures, common)
    found = agreement_differences(
        ours, theirs, _values(below.figures, common),
        replicates=(_replicates(first, below, common), _replicates(second, below, common)),
        same_users=_users(first, common) == _users(second, common), seed=seed,
    )  # fmt: skip
    taus = found[0].first, found[0].second
    needed = None
    if None not in taus and taus[0] != taus[1] and max(map(abs, taus)) < LARGEST_TAU:  # type: ignore[arg-type]
        needed = scorers_needed(*taus)  # type: ignore[arg-type]
    return Rival(
        first=(first.benchmark, first.metric), second=(second.benchmark, second.metric),
        policy=below.policy, below=below.benchmark, quality=below.quality, n=len(common),
        differences=found, needed=needed,
    )  # fmt: skip


def _common(
    first: Mapping[Contestant, Figures], second: Mapping[Contestant, Figures]
) -> list[Contestant]:
    return [one for one in first if one in second]


def _values(figures: Mapping[Contestant, Figures], common: Sequence[Contestant]) -> list[float]:
    return [figures[one].value for one in common]


def _users(side: _Side | Downstream, common: Sequence[Contestant]) -> list[str]:
    return sorted({user for one in common for user in side.figures[one].without})


def _replicates(side: _Side, below: Downstream, common: Sequence[Contestant]) -> Replicates:
    ours, theirs = _users(side, common), _users(below, common)
    same = side.benchmark == below.benchmark
    if same:
        ours = theirs = sorted({*ours, *theirs})
    return Replicates(
        _without(side.figures, common, ours), _without(below.figures, common, theirs),
        same_users=same and len(ours) > 1,
    )  # fmt: skip


def _without(
    figures: Mapping[Contestant, Figures], common: Sequence[Contestant], users: Sequence[str]
) -> np.ndarray | None:
    if len(users) < 2:
        return None
    return np.array(
        [[figures[one].without.get(user, figures[one].value) for one in common] for user in users]
    )
