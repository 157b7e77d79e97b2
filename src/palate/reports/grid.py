"""A grid as tables: accuracy, concordance, gain and identity gain; what was left out below."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from palate.comparison import Grid
from palate.contexts import NOTHING
from palate.reports.alarms import alarm_lines
from palate.reports.names import context_name, legend, short_names, size_name
from palate.reports.noise import measured, not_measured
from palate.reports.numbers import (
    NONE,
    count,
    figure,
    p_value,
    plain,
    point,
    seconds,
    without_interval,
)
from palate.reports.ratings import rating_tables
from palate.reports.subgroup_tables import group_tables
from palate.reports.table import Table, breaks_between
from palate.runs import Gain, Run, Summary

NAMED = {"gain": "gain", "identity": "identity gain"}
WIDTH, GAP = 100, 3
"""Columns of a terminal that a table is to fit, and those between two of its columns."""
CONSISTENT = 0.9
"""Below this share of pairs judged alike in both orders, the table says so."""


def run_tables(run: Run) -> list[Table]:
    """Return the table of one run."""
    return grid_tables(Grid((run,), (), ()), times=False)


def grid_tables(grid: Grid, *, times: bool = True) -> list[Table]:
    """Return every figure: a table per benchmark, one by subset, by group, and of ratings."""
    return [
        *detail_tables(grid, times=times),
        *group_tables(grid.groups),
        *rating_tables(grid.ratings),
    ]


def detail_tables(grid: Grid, *, times: bool = True) -> list[Table]:
    """Return a table per benchmark, and one by subset where there are several."""
    tables = []
    names = [run.summary.benchmark for run in grid.runs] + [name for name, _, _ in grid.missing]
    for benchmark in dict.fromkeys(names):
        runs = [run for run in grid.runs if run.summary.benchmark == benchmark]
        tables.append(_main(benchmark, runs, grid, times=times))
        if any(len(run.summary.subsets) > 1 for run in runs):
            tables.append(_by_subset(benchmark, runs))
    return tables


def _main(benchmark: str, runs: Sequence[Run], grid: Grid, *, times: bool) -> Table:
    cells = _cells(benchmark, runs, grid)
    names = short_names(scorer for scorer, _, _ in cells)
    figures = _figures(runs, grid, times=times)
    rows = [
        [names[scorer], context_name(context, oracle=run is not None and run.summary.oracle)]
        + [show(run) if run else NONE for show in figures.values()]
        for scorer, context, run in cells
    ]
    title = _title(benchmark, runs[0].summary) if runs else f"{benchmark}: nothing to run"
    notes = [*alarm_lines(runs, names.__getitem__)]
    notes += [*_notes([run.summary for run in runs], grid.gains, names), *legend(names)]
    breaks = breaks_between(scorer for scorer, _, _ in cells)
    columns = ["scorer", "context", *figures]
    return Table(title, columns, rows, list(dict.fromkeys(notes)), 2, breaks)


def _cells(benchmark: str, runs: Sequence[Run], grid: Grid) -> list[tuple[str, str, Run | None]]:
    # By scorer as asked for; under each nothing first, then what has no meaning.
    cells: list[tuple[str, str, Run | None]] = [
        (run.summary.scorer, run.summary.context, run) for run in runs
    ]
    void = [cell for name, *cell in grid.missing if name == benchmark]
    contexts = [NOTHING, *(context for _, context in void), *(context for _, context, _ in cells)]
    cells += [(scorer, context, None) for scorer, context in void]
    scorers = [scorer for scorer, _, _ in cells]
    return sorted(cells, key=lambda c: (scorers.index(c[0]), contexts.index(c[1])))


def _figures(runs: Sequence[Run], grid: Grid, *, times: bool) -> dict[str, Callable[[Run], str]]:
    # The columns after scorer and context, each with what it shows of a run.
    gains = {(g.benchmark, g.scorer, g.context, g.kind): g for g in reversed(grid.gains)}

    def gain(run: Run, kind: Literal["gain", "identity"]) -> Gain | None:
        summary = run.summary
        return gains.get((summary.benchmark, summary.scorer, summary.context, kind))

    columns: dict[str, Callable[[Run], str]] = {
        "accuracy [95 %]": lambda run: figure(run.summary.accuracy)
    }
    if any(run.summary.mirrored_accuracy is not None for run in runs):
        columns["concordance [95 %]"] = lambda run: figure(run.summary.concordance)
    else:
        columns["by user"] = lambda run: point(run.summary.macro_accuracy)
        columns["length-controlled"] = lambda run: point(run.summary.length_controlled)
    if grid.gains:
        columns["gain [95 %]"] = lambda run: figure(gain(run, "gain"), signed=True)
        columns["identity gain [95 %]"] = lambda run: figure(gain(run, "identity"), signed=True)
        columns["p (Holm)"] = lambda run: _p(gain(run, "gain"), gain(run, "identity"))
    columns["ties"] = lambda run: count(run.summary.ties)
    columns["unscored"] = lambda run: count(run.summary.unscored)
    if times:
        columns["time"] = lambda run: seconds(run.seconds)
    return columns


def _p(gain: Gain | None, identity: Gain | None) -> str:
    texts = [p_value(g.p_holm if g else None) for g in (gain, identity)]
    return NONE if texts == [NONE, NONE] else " / ".join(texts)


def _title(benchmark: str, summary: Summary) -> str:
    title = f"{benchmark}: {size_name(summary, n_pairs=True)}"
    mirrored = summary.mirrored_accuracy
    if mirrored is None or mirrored.n == summary.n_pairs // 2:
        return title
    return f"{title}, {mirrored.n:,} scored"


def _notes(
    summaries: Sequence[Summary], gains: Sequence[Gain], names: Mapping[str, str]
) -> Iterator[str]:
    if not summaries:
        yield "–: not applicable, since this scorer needs shown text."
        return
    if any(s.mirrored_accuracy is not None for s in summaries):
        yield "On mirrored couples a scorer that ignores the user gets exactly 0.500."
        yield f"Intervals: dyadic jackknife over couples, by {_clustered_by(summaries)}."
    else:
        yield (
            f"Intervals: jackknife by {_clustered_by(summaries)}. by user: mean of users' "
            "accuracies; length-controlled: mean of the accuracies where chosen is longer and "
            "where it is shorter."
        )
    if gains:
        yield (
            "gain: over the same scorer shown nothing. identity gain: over the same scorer shown a "
            "stranger's text. p is Holm-corrected over all gains here, baselines and oracles "
            "excluded."
        )
    if any(gain.state_against for gain in gains):
        yield (
            "A personal model's gain is over the prior, the state of an unknown user; its identity "
            "gain is over a stranger's state, under the same context."
        )
    if any(s.oracle for s in summaries):
        yield "†oracle: shown the gold rubric; an upper bound, never ranked."
    effects = [
        s.minimum_detectable_effect for s in summaries if s.minimum_detectable_effect is not None
    ]
    if effects:
        yield (
            f"Minimum detectable difference from 0.5 (80 % power): {min(effects):.3f} to "
            f"{max(effects):.3f}, by scorer."
        )
    yield from without_interval(
        (f"{names[s.scorer]}, {context_name(s.context)}, {name}", shown.note)
        for s in summaries
        for name, shown in (("accuracy", s.accuracy), ("concordance", s.concordance))
        if shown is not None
    )
    yield from without_interval(
        (f"{names[g.scorer]}, {context_name(g.context)}, {NAMED[g.kind]}", g.note) for g in gains
    )
    yield from _left_out(summaries, names)


def _clustered_by(summaries: Sequence[Summary]) -> str:
    return " or ".join(sorted({s.clustered_by for s in summaries}))


def _left_out(summaries: Sequence[Summary], names: Mapping[str, str]) -> Iterator[str]:
    first = summaries[0]
    if first.undecided_rows:
        yield f"{first.undecided_rows:,} undecided rows left out."
    if first.bad_rows:
        yield f"{first.bad_rows:,} bad rows left out."
    for s in summaries:
        where = f"{names[s.scorer]}, {context_name(s.context)}"
        if s.unscored:
            reasons = "; ".join(f"{n} {reason}" for reason, n in s.unscored_reasons.items())
            low, high = s.bounds or (None, None)
            bounds = f"{plain(low)} to {plain(high)}"
            yield f"{where}: {s.unscored} unscored ({reasons}); bounds {bounds}."
        agreed = (s.position_consistency or {}).get("consistent")
        if agreed is not None and agreed < CONSISTENT:
            yield f"{where}: both orders agree on {agreed:.0%} of the pairs; the others are ties."
        if s.parts_dropped:
            yield f"{where}: {s.parts_dropped} shown parts did not fit the window."
        if s.split_texts:
            yield f"{where}: in {s.split_texts} rows a long text was split for the embedder."
        posts = "strangers' posts" if s.context.startswith("profile") else "posts or past choices"
        if s.leaks_dropped:
            yield f"{where}: {s.leaks_dropped} {posts} dropped: they held the answer."
        if s.shortfall_words:
            yield f"{where}: {posts} fall {s.shortfall_words:,} words short."
        if s.searches_unmatched:
            n = f"{s.searches_unmatched:,}"
            yield f"{where}: {n} searches without a word in common show the latest posts."
        if s.noise is not None and s.noise.rows:
            yield f"{where}: {measured(s.noise, s.n_pairs - s.unscored)}."
        if s.protocol != "palate":
            yield f"{where}: protocol {s.protocol}."
        yield from s.notes
    yield from not_measured(summaries, names)


def _by_subset(benchmark: str, runs: Sequence[Run]) -> Table:
    names = list(dict.fromkeys(name for run in runs for name in run.summary.subsets))
    short = short_names(run.summary.scorer for run in runs)
    cells = [
        [short[run.summary.scorer], context_name(run.summary.context, oracle=run.summary.oracle)]
        for run in runs
    ]
    notes = without_interval(
        (f"{short[run.summary.scorer]}, {context_name(run.summary.context)}, {name}", shown.note)
        for run in runs
        for name, shown in run.summary.subsets.items()
    )
    title = f"{benchmark}: accuracy by subset"
    figures = [[figure(run.summary.subsets.get(name)) for name in names] for run in runs]
    rows = [[*cell, *shown] for cell, shown in zip(cells, figures, strict=True)]
    # A column may fold its name, but not its figures.
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if sum(wide) + GAP * (len(wide) - 1) <= WIDTH:
        return Table(title, ["scorer", "context", *names], rows, [*notes], 2)
    rows = [
        [name, *cell, shown[k]]
        for k, name in enumerate(names)
        for cell, shown in zip(cells, figures, strict=True)
    ]
    columns = ["subset", "scorer", "context", "accuracy [95 %]"]
    return Table(title, columns, rows, [*notes], 3, breaks_between(name for name, *_ in rows))
