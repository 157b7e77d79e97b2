"""validity(results) → validity coefficients: how a benchmark ranks what users get."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from palate.errors import UsageError
from palate.metrics import agreement_difference, rank_agreement, rank_power, reliability
from palate.records import Progress
from palate.records.arguments import checked, grouped, listed
from palate.runs import (
    Manifest,
    Result,
    ResultSource,
    Run,
    Tabular,
    holm_within,
    load_all,
    with_holm,
)
from palate.runs.result import KINDS
from palate.specs import load, registered
from palate.uses import CellKey, CellResult, Downstream
from palate.uses.best_of_n import BestOfResult
from palate.uses.forecast import Forecast
from palate.validity.metric_values import (
    LEAST,
    METRICS,
    MatchedMetric,
    MetricColumn,
    benchmark_units,
    joined,
    match,
    refuse_other_questions,
    same_as_none,
    same_model_runs,
)
from palate.validity.result import (
    Coefficients,
    Difference,
    ForecastScore,
    NoisyRun,
    ScorerValues,
    Validity,
    ValiditySummary,
)

COMPARED = (
    ("accuracy", "mirrored accuracy"),
    ("accuracy", "gain"),
    ("mirrored accuracy", "concordance"),
    ("mirrored accuracy", "identity gain"),
    ("concordance", "identity gain"),
    ("gain", "identity gain"),
)
"""Pairs of metrics of which one may predict quality better, on its first measure.

They were fixed before any result was seen: all pairs would be dozens of tests, and by Holm none
could be found.
"""


@checked
def validity(
    results: ResultSource | Iterable[ResultSource],
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
    once, with the gains of 0 that it has there. Results on the same answers are joined, and their
    forecasts held against them. The result is kept beside the first of them, as `<benchmark of the
    answers>/validity/<policy>-<8 hex>`; under `root` where that is in memory; with None nowhere.

    Raises:
        RunError: for a folder that is missing, holds none, or is of another format.
        UsageError: for a metric that is not known, a k that is not there, without a run or a
            downstream result, or where no metric has three scorers.
        ComparisonError: for runs of other rows, one scorer twice, downstream results that bear
            a benchmark's name and are of other questions, or that another model's picks gave.
    """
    if unknown := [metric for metric in metrics if metric not in METRICS]:
        raise UsageError(f"validity: {unknown[0]}: expected one of {', '.join(METRICS)}")
    sources = listed(results)
    gathered = _gathered(sources)
    runs = [result for result in gathered if isinstance(result, Run)]
    picked = [result for result in gathered if isinstance(result, CellResult) and result.predicted]
    *others, last = use_kinds()
    if not (runs and picked):
        uses = f"{', '.join(others)} or {last}"
        kind, command = (uses, others[0]) if runs else (Run.kind, "evaluate")
        where = ", ".join(str(source) for source in sources if not isinstance(source, Tabular))
        raise UsageError(
            f"validity: no finished {kind} at or under {where or 'what is given'}; make one "
            f"with palate {command}, and name the folder that it wrote into"
        )
    downstream = joined([side for result in picked for side in result.downstream(k)])
    told = [result for result in gathered if isinstance(result, Forecast)]
    scores = [it for side in downstream for it in scored_forecasts(told, picked, side, seed)]
    summary = compare_coefficients(runs, downstream, metrics, seed, progress)
    summary = summary.model_copy(update={"forecasts": tuple(scores)})
    if root is None:
        return Validity(summary)
    first, place = picked[0].summary, picked[0].folder
    hashes = {result.input_name: result.content_hash for result in gathered}
    identity = {"benchmark": first.benchmark, "name": first.policy, "of": list(hashes)}
    identity |= {"k": k, "metrics": list(metrics), "seed": seed}
    manifest = Manifest.of(Validity.kind, identity, inputs=hashes)
    folder = manifest.renew(Path(root) if place is None else place.parents[2])
    result = Validity(summary, folder)
    result.save()
    return result


def use_kinds() -> list[str]:
    """Return the kinds of results that a benchmark may predict: those of uses, by name."""
    kinds = {name: load(KINDS, name) for name in registered(KINDS)}
    return [name for name, kind in kinds.items() if issubclass(kind, CellResult) and kind.predicted]


def _gathered(sources: Iterable[ResultSource]) -> list[Result]:
    """Return the results, and those that lie at or under the folders; each folder once."""
    kinds = [Run.kind, *use_kinds(), Forecast.kind]
    results: dict[object, Result] = {}
    for source in sources:
        for result in source.results if isinstance(source, Tabular) else load_all(source, kinds):
            results.setdefault(result.folder.resolve() if result.folder else id(result), result)
    return list(results.values())


def compare_coefficients(
    runs: Sequence[Run],
    downstream: Sequence[Downstream],
    metrics: Sequence[str],
    seed: int,
    progress: Progress,
) -> ValiditySummary:
    """Return all coefficients of runs and downstream results, and their differences."""
    runs = same_model_runs(runs, downstream)
    by_benchmark = grouped(runs, lambda run: run.summary.benchmark)
    for quality in downstream:
        refuse_other_questions(by_benchmark.get(quality.of.benchmark, ()), quality)
    sides = [
        MetricColumn(name, metric, benchmark_units(own, metric), same_as_none(own))
        for name, own in by_benchmark.items()
        for metric in metrics
    ]
    every = [it for quality in downstream for side in sides if (it := match(side, quality))]
    able = [matched for matched in every if len(matched.scorers) >= LEAST]
    few = dict.fromkeys(
        f"{matched.metric} on {matched.benchmark}: {len(matched.scorers)} scorers"
        for matched in every
        if len(matched.scorers) < LEAST
    )
    pairs = compared([matched for matched in able if matched.downstream is downstream[0]])
    total = len(able) + bool(pairs)
    coefficients: list[Coefficients] = []
    for matched in able:
        coefficients.append(_coefficients(matched, seed))
        progress(len(coefficients), total)
    tests = zip(*([it.chance.p for it in one.agreements] for one in coefficients), strict=True)
    families = [matched.downstream for matched in able]
    corrected = zip(*(holm_within(families, p) for p in tests), strict=True)
    differences = differences_of(pairs, seed)
    if pairs:
        progress(total, total)
    if not able:
        raise UsageError(
            f"validity: no metric has {LEAST} scorers with downstream results"
            + (f" ({'; '.join(few)})" if few else "")
            + _mend(by_benchmark, {quality.of.benchmark for quality in downstream})
        )
    ran = {run.cell[1:] for run in runs if not run.summary.oracle}
    picked = {key for quality in downstream for key in quality.values}
    repeated = {name for side in sides for name in side.same}
    return ValiditySummary(
        coefficients=tuple(
            of_metric.model_copy(update={"p_holm": p})
            for of_metric, p in zip(coefficients, corrected, strict=True)
        ),
        differences=differences,
        too_few=tuple(few),
        benchmark_only=tuple(sorted(ran - picked - repeated)),
        downstream_only=tuple(sorted(picked - ran)),
        context_independent=tuple(sorted({scorer for scorer, _ in repeated & picked})),
        noisy=tuple(_noisy(runs, picked)),
    )


def _noisy(runs: Iterable[Run], picked: Collection[CellKey]) -> Iterator[NoisyRun]:
    for run in sorted(runs, key=lambda run: run.cell):
        if run.summary.noise is not None and run.cell[1:] in picked:
            yield NoisyRun(**{name: getattr(run.summary, name) for name in NoisyRun.model_fields})


def _mend(evaluated: Collection[str], downstream: Collection[str]) -> str:
    without = sorted({*downstream} - {*evaluated})
    if len(without) < len(downstream):
        return "; check that both sides spell scorers and contexts the same way"
    return (
        f": palate evaluate ran on {', '.join(sorted(evaluated))} and not on {without[0]}; run "
        f"palate evaluate on {without[0]} with the scorers and contexts of the downstream results"
    )


def _coefficients(matched: MatchedMetric, seed: int) -> Coefficients:
    downstream, table = matched.downstream, matched.table
    quality = downstream.table(matched.scorers)
    x, y = list(table.figures.values()), list(quality.figures.values())
    known = reliability(table.values, table.clusters)
    picked = reliability(quality.values, quality.clusters)
    same = ("benchmark", "metric", "constant", "n_largest", "smallest")
    return Coefficients(
        **{name: getattr(matched, name) for name in same},
        downstream=downstream.of,
        scorers=tuple(
            ScorerValues(scorer=scorer, context=context, metric_value=a, downstream_value=b)
            for (scorer, context), a, b in zip(matched.scorers, x, y, strict=True)
        ),
        n=len(table.clusters),
        agreements=rank_agreement(x, y, seed=seed),
        reliability=known,
        downstream_reliability=picked,
        noise_ceiling=None
        if known is None or picked is None
        else math.sqrt(known.value * picked.value),
        power=rank_power(len(x), seed=seed),
    )


def compared(matches: Sequence[MatchedMetric]) -> list[tuple[MatchedMetric, MatchedMetric]]:
    """Return the two sides of each comparison of `COMPARED` that these matches allow.

    The first benchmark that has both metrics; where none has, the first that has each. Two sides
    with fewer than three common scorers are not compared.
    """
    pairs = []
    for first, second in COMPARED:
        sides = [
            (a, b)
            for a in matches
            for b in matches
            if (a.metric, b.metric) == (first, second) and len(_common(a, b)) >= LEAST
        ]
        # Stable: of several the order of the runs decides.
        pairs += sorted(sides, key=lambda pair: pair[0].benchmark != pair[1].benchmark)[:1]
    return pairs


def differences_of(
    pairs: Sequence[tuple[MatchedMetric, MatchedMetric]], seed: int = 0
) -> tuple[Difference, ...]:
    """Compare both sides of each pair, Holm-corrected over all of them."""
    differences = []
    for first, second in pairs:
        common = _common(first, second)
        quality = first.downstream.table(common)
        figures = [side.figures for side in (first.table, second.table, quality)]
        tau = agreement_difference(*([f[key] for key in common] for f in figures), seed=seed)
        sides: dict[str, Any] = {"first": first[:2], "second": second[:2], "n": len(common)}
        differences.append(Difference(**sides, downstream=first.downstream.of, tau=tau))
    return tuple(with_holm(differences, [difference.tau.p for difference in differences]))


def _common(first: MatchedMetric, second: MatchedMetric) -> list[CellKey]:
    return [name for name in first.scorers if name in second.scorers]


def scored_forecasts(
    forecasts: Sequence[Forecast], results: Sequence[Result], side: Downstream, seed: int
) -> Iterator[ForecastScore]:
    """Yield how far forecasts of a measure were off, where there are any."""
    same = [
        (it, it.written is not None and it.written.before_rating)
        for it in forecasts
        if it.summary.samples.content_hash == side.samples
    ]
    came = {
        cell.key: point.oracle_share.value
        for result in results
        if isinstance(result, BestOfResult) and result.summary.samples.content_hash == side.samples
        for cell in result.summary.cells
        for point in cell.curve.points
        if cell.quality == side.of.quality and point.k == side.of.k and cell.key in side.values
    }
    cells = {
        cell.key: (share, cell.accuracy, is_early)
        for result, is_early in sorted(same, key=lambda it: it[1])  # of two the early one counts
        for cell in result.summary.cells
        for share in cell.shares
        if (cell.target == "contrast") == (side.mirrors is not None) and share.k == side.of.k
    }
    cells = {key: it for key, it in cells.items() if None not in (it[0].value, came.get(key))}
    moved = [key for key in cells if key not in side.constant or cells[key][0].attainable]
    early = [key for key in moved if cells[key][-1]]
    figures = [
        (share.value, share.low, share.high, accuracy, came[key])
        for key in early
        for share, accuracy, _ in [cells[key]]
    ]
    value, low, high, accuracy, real = np.array(figures, dtype=float).reshape(-1, 5).T
    known, ranked = ~np.isnan(low + high), ~np.isnan(accuracy)
    within = (low <= real) & (real <= high)
    columns = value[ranked], accuracy[ranked], real[ranked]
    if cells:
        yield ForecastScore(
            downstream=side.of,
            scorers=tuple(
                ScorerValues(scorer=key[0], context=key[1], metric_value=a, downstream_value=b)
                for key, a, b in zip(early, value.tolist(), real.tolist(), strict=True)
            ),
            blind=len(cells) - len(moved),
            late=len(moved) - len(early),
            mean_error=float(np.abs(value - real).mean()) if early else None,
            error_of_zero=float(np.abs(real).mean()) if early else None,
            cover=float(within[known].mean()) if known.any() else None,
            tau=agreement_difference(*columns, seed=seed) if ranked.sum() >= LEAST else None,
        )
