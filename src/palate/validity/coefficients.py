"""validity(results) → validity coefficients: how a benchmark ranks what users get."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from palate.errors import UsageError
from palate.metrics.ranks import rank_agreement, rank_power, reliability
from palate.records import Progress
from palate.runs import Manifest, Result, Run, holm_within, load_all
from palate.runs.result import KINDS
from palate.specs import load, registered
from palate.uses import CellKey, CellResult, Downstream
from palate.validity.differences import compared, differences_of
from palate.validity.downstream import joined
from palate.validity.matching import (
    LEAST,
    MatchedMetric,
    MetricColumn,
    match,
    refuse_other_questions,
    same_model_runs,
)
from palate.validity.metric_values import METRICS, benchmark_units, same_as_none
from palate.validity.result import Coefficients, NoisyRun, ScorerValues, Validity, ValiditySummary

RunSource = Path | str | Result


def validity(
    results: RunSource | Iterable[RunSource],
    k: int | None = None,
    *,
    metrics: Sequence[str] = METRICS,
    seed: int = 0,
    root: Path | str | None = "runs",
    progress: Progress = lambda done, total: None,
) -> Validity:
    """Compare what benchmark runs say of scorers with the quality of what these pick.

    `results` are runs and results of best-of-n, decode, policy-accuracy and ppo, or folders of
    them; other kinds are passed over. A scorer here is a scorer under one context; both sides are
    matched by both specs. One whose margins are the same under a context as under `none` counts
    once, with the gains of 0 that it has there. Results on the same answers are joined. The
    result is kept beside the first of them, as `<benchmark of the
    answers>/validity/<policy>-<8 hex>`; under `root` where that is in memory; with None nowhere.

    Raises:
        RunError: for a folder that is missing, holds none, or is of another format.
        UsageError: for a metric that is not known, a k that is not there, without a run or a
            downstream result, or where no metric has three scorers.
        ComparisonError: for runs of other rows, one scorer twice, downstream results that bear
            a benchmark's name and are of other questions, or that another model's picks gave.
    """
    unknown = [one for one in metrics if one not in METRICS]
    if unknown:
        raise UsageError(f"validity: {unknown[0]}: expected one of {', '.join(METRICS)}")
    given = [results] if isinstance(results, (str, Path, Result)) else list(results)
    both = _gathered(given)
    runs = [result for result in both if isinstance(result, Run)]
    picked = [result for result in both if isinstance(result, CellResult) and result.predicted]
    *others, last = use_kinds()
    listed = f"{', '.join(others)} or {last}"
    for some, kind, command in ((runs, Run.kind, "evaluate"), (picked, listed, others[0])):
        if not some:
            where = ", ".join(str(each) for each in given if not isinstance(each, Result))
            raise UsageError(
                f"validity: no finished {kind} at or under {where or 'what is given'}; make one "
                f"with palate {command}, and name the folder that it wrote into"
            )
    downstream = joined([side for result in picked for side in result.downstream(k)])
    summary = compare_coefficients(runs, downstream, metrics, seed, progress)
    if root is None:
        return Validity(summary)
    first = picked[0].summary
    manifest = Manifest.of(
        Validity.kind,
        {
            "benchmark": first.benchmark,
            "name": first.policy,
            "of": [*map(_name, both)],
            "k": k,
            "metrics": list(metrics),
            "seed": seed,
        },
        inputs={_name(result): result.content_hash for result in both},
    )
    place = picked[0].folder
    folder = manifest.renew(Path(root) if place is None else place.parents[2])
    result = Validity(summary, folder)
    result.save()
    return result


def use_kinds() -> list[str]:
    """Return the kinds of results that a benchmark may predict: those of uses, by name."""
    kinds = {name: load(KINDS, name) for name in registered(KINDS)}
    return [name for name, kind in kinds.items() if issubclass(kind, CellResult) and kind.predicted]


def _gathered(given: Iterable[RunSource]) -> list[Result]:
    """Return what is given, and what lies at or under the folders that are; each folder once."""
    kinds = [Run.kind, *use_kinds()]
    results: dict[object, Result] = {}
    for each in given:
        for result in [each] if isinstance(each, Result) else load_all(each, kinds):
            results.setdefault(result.folder.resolve() if result.folder else id(result), result)
    return list(results.values())


def _name(result: Result) -> str:
    """Return what a manifest calls an input: the end of its folder, or its content in memory."""
    if result.folder is None:
        return f"{result.kind} {result.content_hash[:8]}"
    return "/".join(result.folder.resolve().parts[-3:])


def compare_coefficients(
    runs: Sequence[Run],
    downstream: Sequence[Downstream],
    metrics: Sequence[str],
    seed: int,
    progress: Progress,
) -> ValiditySummary:
    """Return all coefficients of runs and downstream results, and their differences."""
    runs = same_model_runs(runs, downstream)
    by_benchmark: dict[str, list[Run]] = {}
    for run in runs:
        by_benchmark.setdefault(run.summary.benchmark, []).append(run)
    for quality in downstream:
        refuse_other_questions(by_benchmark.get(quality.of.benchmark, ()), quality)
    sides = [
        MetricColumn(name, metric, benchmark_units(own, metric), same_as_none(own))
        for name, own in by_benchmark.items()
        for metric in metrics
    ]
    by_measure = [
        [one for side in sides if (one := match(side, quality)) is not None]
        for quality in downstream
    ]
    few = [
        f"{one.metric} on {one.benchmark}: {len(one.scorers)} scorers"
        for matches in by_measure
        for one in matches
        if len(one.scorers) < LEAST
    ]
    able = [[one for one in some if len(one.scorers) >= LEAST] for some in by_measure]
    pairs = compared(able[0]) if able else []
    total = sum(map(len, able)) + bool(pairs)
    coefficients: list[Coefficients] = []
    for matches in able:
        of_measure = []
        for one in matches:
            of_measure.append(_coefficients(one, seed))
            progress(len(coefficients) + len(of_measure), total)
        coefficients += _corrected(of_measure)
    differences = differences_of(pairs, seed)
    if pairs:
        progress(total, total)
    if not coefficients:
        raise UsageError(
            f"validity: no metric has {LEAST} scorers with downstream results"
            + (f" ({'; '.join(dict.fromkeys(few))})" if few else "")
            + _mend(by_benchmark, {quality.of.benchmark for quality in downstream})
        )
    ran = {run.cell[1:] for run in runs if not run.summary.oracle}
    picked = {one for quality in downstream for one in quality.values}
    repeated = {name for side in sides for name in side.same}
    return ValiditySummary(
        coefficients=tuple(coefficients),
        differences=differences,
        too_few=tuple(dict.fromkeys(few)),
        benchmark_only=tuple(sorted(ran - picked - repeated)),
        downstream_only=tuple(sorted(picked - ran)),
        context_independent=tuple(sorted({scorer for scorer, _ in repeated & picked})),
        noisy=tuple(_noisy(runs, picked)),
    )


def _noisy(runs: Iterable[Run], picked: Collection[CellKey]) -> Iterator[NoisyRun]:
    for run in sorted(runs, key=lambda run: run.cell):
        noise, (benchmark, scorer, context) = run.summary.noise, run.cell
        if noise is not None and (scorer, context) in picked:
            yield NoisyRun(benchmark=benchmark, scorer=scorer, context=context, noise=noise)


def _mend(evaluated: Collection[str], downstream: Collection[str]) -> str:
    without = sorted({*downstream} - {*evaluated})
    if len(without) < len(downstream):
        return "; check that both sides spell scorers and contexts the same way"
    return (
        f": palate evaluate ran on {', '.join(sorted(evaluated))} and not on {without[0]}; run "
        f"palate evaluate on {without[0]} with the scorers and contexts of the downstream results"
    )


def _corrected(of_measure: Sequence[Coefficients]) -> list[Coefficients]:
    families = zip(*(one.agreements for one in of_measure), strict=True)
    corrected = [
        holm_within([""] * len(family), [agreement.chance.p for agreement in family])
        for family in families
    ]
    of_each = zip(of_measure, zip(*corrected, strict=True), strict=True)
    return [one.model_copy(update={"p_holm": p}) for one, p in of_each]


def _coefficients(matched: MatchedMetric, seed: int) -> Coefficients:
    downstream, table = matched.downstream, matched.table
    quality = downstream.table(matched.scorers)
    x, y = list(table.figures.values()), list(quality.figures.values())
    known = reliability(table.values, table.clusters)
    picked = reliability(quality.values, quality.clusters)
    return Coefficients(
        benchmark=matched.benchmark,
        metric=matched.metric,
        downstream=downstream.of,
        scorers=tuple(
            ScorerValues(scorer=scorer, context=context, metric_value=a, downstream_value=b)
            for (scorer, context), a, b in zip(matched.scorers, x, y, strict=True)
        ),
        constant=matched.constant,
        n=len(table.clusters),
        n_largest=matched.n_largest,
        smallest=matched.smallest,
        agreements=rank_agreement(x, y, seed=seed),
        reliability=known,
        downstream_reliability=picked,
        noise_ceiling=None
        if known is None or picked is None
        else math.sqrt(known.value * picked.value),
        power=rank_power(len(x), seed=seed),
    )
