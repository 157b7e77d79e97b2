"""A grid, and a comparison of its scorers, as tables; what was left out stands below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from palate.comparison import Comparison, ComparisonGroup, Grid, RankedRun
from palate.comparison.redraws import is_noise
from palate.contexts import NOTHING, shows
from palate.reports.names import ShortNames, context_name, legend, short_names, size_name
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
from palate.reports.table import GAP, WIDTH, Table, breaks_between
from palate.reports.user_tables import cost_tables, group_tables, kind_tables, rating_tables
from palate.reports.verdict import alarm_lines, alarms_of, measured, not_measured, precisions
from palate.runs import Gain, MemberReport, Run, Summary, Test

NAMED = {"gain": "gain over nothing", "identity": "identity gain"}
CONSISTENT = 0.9
"""Below this share of pairs judged alike in both orders, the table says so."""


def run_tables(run: Run) -> list[Table]:
    """Return the table of one run."""
    return grid_tables(Grid((run,), (), ()), times=False)


def grid_tables(grid: Grid, *, times: bool = True) -> list[Table]:
    """Return every figure: a table per benchmark, one by subset, by group, and of ratings."""
    return [*detail_tables(grid, times=times), *asked_tables(grid)]


def asked_tables(grid: Grid) -> list[Table]:
    """Return what options asked for beside the grid: kinds, groups, ratings and costs."""
    tables = [*kind_tables(grid.kinds), *group_tables(grid.groups)]
    return [*tables, *rating_tables(grid.ratings), *cost_tables(grid.costs)]


def detail_tables(grid: Grid, *, times: bool = True) -> list[Table]:
    """Return a table per benchmark, and one by subset where there are several."""
    tables = []
    names = [run.summary.benchmark for run in grid.runs] + [name for name, _, _ in grid.missing]
    for benchmark in dict.fromkeys(names):
        runs = [run for run in grid.runs if run.summary.benchmark == benchmark]
        tables.append(_main(benchmark, runs, grid, times=times))
        if any(len(run.summary.subsets) > 1 for run in runs):
            tables.append(_by_subset(benchmark, runs))
        tables += member_tables(benchmark, runs)
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
    notes = [*alarm_lines(runs, names.__getitem__), *_notes(runs, grid.gains, names)]
    notes = list(dict.fromkeys([*notes, *legend(names)]))
    breaks = breaks_between(scorer for scorer, _, _ in cells)
    return Table(title, ["scorer", "context", *figures], rows, notes, 2, breaks)


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
        return gains.get((*run.cell, kind))

    columns: dict[str, Callable[[Run], str]] = {
        "accuracy [95 %]": lambda run: figure(run.summary.accuracy)
    }
    if any(run.summary.mirrored_accuracy is not None for run in runs):
        columns["concordance [95 %]"] = lambda run: figure(run.summary.concordance)
    else:
        columns["by user"] = lambda run: point(run.summary.macro_accuracy)
        columns["same length"] = lambda run: point(run.summary.length_controlled)
    if grid.gains:
        columns["gain over nothing [95 %]"] = lambda run: figure(gain(run, "gain"), signed=True)
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


def _notes(runs: Sequence[Run], gains: Sequence[Gain], names: ShortNames) -> Iterator[str]:
    if not runs:
        yield "–: not applicable, since this scorer needs shown text."
        return
    summaries = [run.summary for run in runs]
    clustered_by = " or ".join(sorted({s.clustered_by for s in summaries}))
    if any(s.mirrored_accuracy is not None for s in summaries):
        if all(run.verdicts.exact for run in runs):
            yield "On mirrored couples a scorer that ignores the user gets exactly 0.500."
        yield f"Intervals: dyadic jackknife over couples, by {clustered_by}."
    else:
        yield (
            f"Intervals: jackknife by {clustered_by}. by user: mean of users' "
            "accuracies; same length: mean of the accuracies where chosen is longer and "
            "where it is shorter."
        )
    if gains:
        yield (
            "gain over nothing: over the same scorer shown nothing. identity gain: over the same "
            "scorer shown a stranger's text. p is Holm-corrected over all gains here, baselines "
            "and oracles excluded."
        )
    if any(gain.state_against for gain in gains):
        yield (
            "A personal model's gain over nothing is over the prior, the state of an unknown user; "
            "its identity gain is over a stranger's state, under the same context."
        )
    if any(s.oracle and shows(s.context) != "pressure" for s in summaries):
        yield "†oracle: shown the gold rubric; an upper bound, never ranked."
    smallest = (s.minimum_detectable_effect for s in summaries)
    if effects := [effect for effect in smallest if effect is not None]:
        yield (
            f"Minimum detectable difference from 0.5 (80 % power): {min(effects):.3f} to "
            f"{max(effects):.3f}, by scorer."
        )
    yield from without_interval(
        (f"{names.place(s)}, {name}", shown.note)
        for s in summaries
        for name, shown in (("accuracy", s.accuracy), ("concordance", s.concordance))
        if shown is not None
    )
    yield from without_interval((f"{names.place(g)}, {NAMED[g.kind]}", g.note) for g in gains)
    yield from _left_out(summaries, names)


def _left_out(summaries: Sequence[Summary], names: ShortNames) -> Iterator[str]:
    first = summaries[0]
    if first.undecided_rows:
        yield f"{first.undecided_rows:,} undecided rows left out."
    if first.bad_rows:
        yield f"{first.bad_rows:,} bad rows left out."
    for s in summaries:
        where = names.place(s)
        if s.unscored:
            reasons = "; ".join(f"{n} {reason}" for reason, n in s.unscored_reasons.items())
            bounds = " to ".join(map(plain, s.bounds or (None, None)))
            yield f"{where}: {s.unscored} unscored ({reasons}); bounds {bounds}."
        agreed = (s.position_consistency or {}).get("consistent")
        if agreed is not None and agreed < CONSISTENT:
            yield f"{where}: both orders agree on {agreed:.0%} of the pairs; the others are ties."
        if s.parts_dropped:
            yield f"{where}: {s.parts_dropped} shown parts did not fit the window."
        if s.split_texts:
            yield f"{where}: in {s.split_texts} rows a long text was split for the embedder."
        posts = "strangers' posts" if s.context.startswith("profile") else "posts or past choices"
        posts = "texts of users" if s.context.startswith("traits") or "+" in s.context else posts
        if s.leaks_dropped:
            yield f"{where}: {s.leaks_dropped} {posts} dropped: they held the answer."
        if s.shortfall_words:
            yield f"{where}: {posts} fall {s.shortfall_words:,} words short."
        lacking = (s.lacking or {}).items()
        yield from (f"{where}: {n:,} rows are shown no {kind}." for kind, n in lacking)
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
    summaries = [run.summary for run in runs]
    subsets = list(dict.fromkeys(name for summary in summaries for name in summary.subsets))
    names = short_names(summary.scorer for summary in summaries)
    cells = [names.cells(summary) for summary in summaries]
    notes = without_interval(
        (f"{names.place(summary)}, {subset}", shown.note)
        for summary in summaries
        for subset, shown in summary.subsets.items()
    )
    title = f"{benchmark}: accuracy by subset"
    figures = [[figure(summary.subsets.get(name)) for name in subsets] for summary in summaries]
    rows = [[*cell, *shown] for cell, shown in zip(cells, figures, strict=True)]
    # A column may fold its name, but not its figures.
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if sum(wide) + GAP * (len(wide) - 1) <= WIDTH:
        return Table(title, ["scorer", "context", *subsets], rows, [*notes], 2)
    rows = [
        [subset, *cell, shown[k]]
        for k, subset in enumerate(subsets)
        for cell, shown in zip(cells, figures, strict=True)
    ]
    columns = ["subset", "scorer", "context", "accuracy [95 %]"]
    return Table(title, columns, rows, [*notes], 3, breaks_between(row[0] for row in rows))


def member_tables(benchmark: str, runs: Sequence[Run]) -> Iterator[Table]:
    """Yield the table of the members of panels and mixes, with their agreement below."""
    told = [(run.summary, run.summary.members) for run in runs if run.summary.members is not None]
    if not told:
        return
    names = short_names(summary.scorer for summary, _ in told)
    listed = [(summary, member) for summary, whole in told for member in whole.members]
    columns: dict[str, Callable[[tuple[Summary, MemberReport]], str]] = {
        "scorer": lambda of: names[of[0].scorer],
        "context": lambda of: context_name(of[0].context, oracle=of[0].oracle),
        "member": lambda of: of[1].name,
        "accuracy [95 %]": lambda of: figure(of[1].accuracy),
    }
    if any(member.weight for _, member in listed):
        columns["weight [95 %]"] = lambda of: figure(of[1].weight, signed=True)
        columns["scale"] = lambda of: NONE if of[1].scale is None else f"{of[1].scale:.4g}"
    notes = []
    for summary, whole in told:
        place, agreed = names.place(summary), f"α {figure(whole.agreement)}"
        n, learnt = whole.agreement.n, whole.learnt
        notes.append(f"{place}, by {whole.by}: members agree by {agreed} over {n:,} rows.")
        if learnt is not None:
            text = "Weights, of scores over their scale, are of {rows:,} past choices of {users:,} "
            notes.append(f"{text}users; {{left_out:,}} are left out.".format(**learnt))
        figures = [(f"weight of {member.name}", member.weight) for member in whole.members]
        figures.append(("α", whole.agreement))
        notes += without_interval((f"{place}, {name}", it.note) for name, it in figures if it)
    notes += legend({member.scorer: member.name for _, member in listed})
    title = f"{benchmark}: members of panels and mixes"
    yield Table.of(title, listed, columns, [*notes, *legend(names)], 3, parted=2)


def comparison_tables(comparison: Comparison, *, details: bool = True) -> list[Table]:
    """Return, per benchmark and context, ranking and paired tests: all, or the best scorer's."""
    groups = [group for group in comparison.groups if len(group.runs) > 1]
    short = short_names(run.summary.scorer for group in groups for run in group.runs)
    ranked = [run for run in comparison.runs if run.summary.scorer in short]
    alarmed = {run.summary.scorer for run, _ in alarms_of(ranked)}
    marked = {spec: name + " ‡" * (spec in alarmed) for spec, name in short.items()}
    tables = []
    for group in groups:
        notes = [f"‡ {line}" for line in alarm_lines(ranked, short.__getitem__)]
        notes = [*notes, *_ranking_notes(groups, short)] if group is groups[-1] else []
        tables.append(_ranking(group, marked, notes))
        if group.tests:
            tables.append(_tests(group, short, details=details))
    return [*tables, *kind_tables(comparison.kinds)]


def _ranking_notes(groups: Sequence[ComparisonGroup], short: ShortNames) -> Iterator[str]:
    # Said once, below the last ranking.
    if any(group.tests for group in groups):
        yield "rank: what the corrected tests leave open at the 5 % level."
    if any(ranked.best is None for group in groups for ranked in group.ranking):
        yield "Baselines have no rank and no test."
    yield from precisions([run.summary for group in groups for run in group.runs], short)
    yield from legend(short)


def _ranking(group: ComparisonGroup, short: Mapping[str, str], notes: Iterable[str]) -> Table:
    columns: dict[str, Callable[[RankedRun], str]] = {
        "scorer": lambda ranked: ", ".join(short[run.summary.scorer] for run in ranked.runs),
        "accuracy [95 %]": lambda ranked: figure(ranked.run.summary.accuracy),
        "rank": lambda ranked: ranks(ranked) if ranked.best is None or group.tests else "–",
    }
    title = (
        f"{group.name}, {context_name(group.context)}: "
        f"{len(group.runs)} scorers, {group.n_common:,} common rows"
    )
    return Table.of(title, group.ranking, columns, notes)


def ranks(ranked: RankedRun) -> str:
    """Return the ranks that are left to a scorer."""
    if ranked.best is None:
        return "baseline"
    return str(ranked.best) if ranked.best == ranked.worst else f"{ranked.best} to {ranked.worst}"


def _tests(group: ComparisonGroup, short: ShortNames, *, details: bool) -> Table:
    tests = group.tests
    best = next(r.run.summary.scorer for r in group.ranking if r.best is not None)
    if not details:
        tests = tuple(test for test in tests if best in (test.a.scorer, test.b.scorer))
    mirrored = group.ranking[0].run.summary.mirrored_accuracy is not None
    columns: dict[str, Callable[[Test], str]] = {
        "a": lambda test: short[test.a.scorer],
        "b": lambda test: short[test.b.scorer],
        "a − b [95 %]": lambda test: figure(test, signed=True),
        "couples" if mirrored else "pairs": lambda test: f"{test.n:,}",
        "p": lambda test: p_value(test.p),
        "p (Holm)": lambda test: p_value(test.p_holm),
    }
    notes = [f"Test: {method}." for method in dict.fromkeys(t.method for t in tests)]
    noisy = [f"{short[t.a.scorer]} − {short[t.b.scorer]}" for t in tests if is_noise(t)]
    if noisy:
        notes.append(f"Noise could turn {', '.join(noisy)}, so the ranks leave that order open.")
    if len(tests) < len(group.tests):
        notes.append(f"{len(group.tests) - len(tests):,} tests of other scorers: --details.")
    notes += without_interval((f"{short[t.a.scorer]} − {short[t.b.scorer]}", t.note) for t in tests)
    title = f"{group.name}, {context_name(group.context)}: paired differences in accuracy"
    return Table.of(title, tests, columns, notes, 2)
