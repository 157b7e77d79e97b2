"""Section 9: which scorer to deploy, and which of them no test tells apart."""

from __future__ import annotations

from collections import Counter

from palate.comparison import ComparisonGroup, RankedRun, compare
from palate.comparison.redraws import is_shown
from palate.reports.comparison import ranks
from palate.reports.numbers import figure
from palate.reports.page.contents import BenchmarkRuns, Contents
from palate.reports.page.figures.plots import rank_lines
from palate.reports.page.names import Names
from palate.reports.page.parts import Picture, Section
from palate.reports.table import Table


def ranking(contents: Contents) -> Section:
    """Return the ranks that the tests leave open, under the context with the most scorers."""
    parts: list[Picture] = []
    contexts: dict[str, None] = {}
    for k, benchmark in enumerate(contents.benchmarks, 1):
        context = _context(benchmark)
        if context and (made := _ranking(benchmark, context, contents.names, k)) is not None:
            parts.append(made)
            contexts[contents.names.context(context)] = None
    listed = " or ".join(contexts)
    lead = f"Under {listed} scorers are compared on what they are shown alike."
    return Section("ranking", "Which would I deploy?", parts, lead)


def _context(benchmark: BenchmarkRuns) -> str:
    # The one with the most scorers; empty where there is none.
    contexts = Counter(f.context for f in benchmark.main_findings)
    return max(contexts, key=lambda each: (contexts[each], each), default="")


def _ranking(benchmark: BenchmarkRuns, context: str, names: Names, number: int) -> Picture | None:
    runs = [f.run for f in benchmark.main_findings if f.context == context]
    runs = list({run.summary.scorer: run for run in runs if run.accuracy is not None}.values())
    if len(runs) < 2:
        return None
    group = compare(runs).groups[0]
    ranked = group.ranking
    scorers = [(_together(each, names), each.run.summary.accuracy) for each in ranked]
    baselines: dict[float, list[str]] = {}
    for f in benchmark.findings:
        if f.baseline and f.context == context and f.run.accuracy is not None:
            baselines.setdefault(f.run.accuracy, []).append(names.scorer(f.scorer))
    lines = [(", ".join(sorted(each)), value) for value, each in sorted(baselines.items())]
    rows = [
        [name, figure(accuracy), ranks(each)]
        for (name, accuracy), each in zip(scorers, ranked, strict=True)
    ]
    title = f"{benchmark.name}: {len(ranked)} scorers under {names.context(context)}"
    note = f"Rank: what paired tests on {group.n_common:,} common rows, Holm-corrected, leave open."
    table = Table(title, ["scorer", "accuracy", "rank"], rows, [note])
    bars = joined(group)
    description = "A dot is a scorer’s accuracy, a line its 95 % interval."
    if bars:
        description += " A bar on the right joins scorers that no test tells apart."
    if lines:
        description += " Dashed lines are baselines."
    drawing = rank_lines(scorers, bars, lines)
    name = f"ranking-{number}"
    return Picture(name, f"Scorers by accuracy, {benchmark.name}", description, table, drawing)


def _together(ranked: RankedRun, names: Names) -> str:
    return ", ".join(names.scorer(run.summary.scorer) for run in (ranked.run, *ranked.equal))


def joined(group: ComparisonGroup) -> list[tuple[int, int]]:
    """Return the longest stretches of the ranking within which no test finds a difference."""
    place = {
        (each.run.summary.scorer, each.run.summary.context): k
        for k, each in enumerate(group.ranking)
    }
    apart = {
        tuple(sorted((place[t.a.scorer, t.a.context], place[t.b.scorer, t.b.context])))
        for t in group.tests
        if is_shown(t)
    }
    stretches: list[tuple[int, int]] = []
    for first in range(len(place)):
        last = first
        while last + 1 < len(place) and not any(
            (k, last + 1) in apart for k in range(first, last + 1)
        ):
            last += 1
        if last > first and not any(last <= end for _, end in stretches):
            stretches.append((first, last))
    return stretches
