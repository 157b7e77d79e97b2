"""Scorers on the page: in a table, as dumbbells, and in the order that tests leave open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from markupsafe import Markup

from palate.comparison import ComparisonGroup, Finding, compare
from palate.comparison.redraws import is_shown
from palate.records.arguments import grouped
from palate.reports.ceilings import ceiling_bar
from palate.reports.contents import BenchmarkRuns, Contents
from palate.reports.grid import ranks
from palate.reports.names import Names
from palate.reports.numbers import NONE, Number, figure, p_value, plain, without_interval
from palate.reports.parts import Picture, Section, symbol
from palate.reports.plots import GOLD, MARKS, NOTHING, OWN, STRANGER, Mark, dumbbells, rank_lines
from palate.reports.table import Table
from palate.reports.user_tables import kind_tables
from palate.reports.verdict import alarms_of
from palate.runs import Gain, ReportedEstimate, Run

SHAPES = {
    "yes": "circle",
    "anyone's": "half",
    "stranger's": "diamond",
    "not shown": "ring",
    "rounding": "wave",
    "unsteady": "zigzag",
    "blind": "bar",
    "all ties": "equal",
    "–": "none",
}


class Drawn(Number):
    """A number with a drawing beside it; it sorts and exports as the number."""

    drawing: Markup

    def __html__(self) -> str:
        return self.drawing + super().__html__()


def limits(benchmark: BenchmarkRuns) -> str:
    """Say how large an identity gain has to be to be detected; empty where there is none."""
    gains = [f.identity for f in benchmark.main_findings if f.identity]
    effects = [g.minimum_detectable_effect for g in gains if g.minimum_detectable_effect]
    if not effects:
        return ""
    return (
        f"On {benchmark.size} the minimum detectable identity gain is {plain(max(effects))} at "
        "worst (80 % power), so “not shown” does not mean absent."
    )


def scorers(benchmark: BenchmarkRuns, names: Names, number: int) -> Iterator[Table]:
    """Yield the table of scorers: a row per scorer and context that shows the user's own."""
    if not benchmark.findings:
        return
    gains = [f.identity for f in benchmark.findings if f.identity]
    ends = [end for g in gains for end in (g.low, g.high, g.value) if end is not None]
    span = min([0.0, *ends]), max([0.01, *ends])
    alarmed = {run.summary.scorer for run, _ in alarms_of(benchmark.runs)}

    def name(f: Finding) -> str:
        name = names.scorer(f.scorer)
        for tag in ["baseline"] * f.baseline + ["look"] * (f.scorer in alarmed):
            name = Markup("{} <span class='tag'>{}</span>").format(name, tag)
        return name

    columns: dict[str, Callable[[Finding], str]] = {
        "scorer": name,
        "context": lambda f: names.context(f.context),
        "nothing": lambda f: _accuracy(f.nothing),
        "own": lambda f: _accuracy(f.own_run),
    }
    if not benchmark.mirrored:
        columns["by user"] = lambda f: figure(f.run.summary.macro_accuracy)
        columns["same length"] = lambda f: figure(f.run.summary.length_controlled)
    columns |= {
        "stranger’s": lambda f: _accuracy(f.stranger),
        "identity gain": lambda f: _gain(f.identity, f.word, span),
        "p": lambda f: p_value(f.identity.p_holm if f.identity and not f.baseline else None),
        "finding": lambda f: _finding(f.word),
    }
    title = f"{benchmark.name}: {benchmark.size}"
    yield Table.of(title, benchmark.findings, columns, _notes(benchmark, names), 2)
    yield from map(names.table, kind_tables(benchmark.grid.kinds))


def _finding(word: str) -> Markup:
    # A word with a mark of its own shape.
    return Markup('<a class="finding" href="#word-finding">{}{}</a>').format(
        symbol(SHAPES[word]), word.replace("'", "’")
    )


def pictures(benchmark: BenchmarkRuns, names: Names, number: int) -> Iterator[Picture]:
    """Yield the dumbbells: accuracy by what is shown."""
    rows = list(_dumbbells(benchmark, names))
    if not rows:
        return
    yield from ceiling_bar(benchmark, names, number)
    marks = [mark for mark in MARKS if any(mark in figures for _, figures in rows)]
    words = [mark.word for mark in marks]
    cells = [[name, *(figure(figures.get(mark)) for mark in marks)] for name, figures in rows]
    description = f"A dot is a scorer’s accuracy with {', '.join(words)}."
    description += " A thin line is the 95 % interval of the user’s own."
    if benchmark.mirrored:
        description += " The dashed line is a scorer that ignores the user."
    yield Picture(
        f"accuracy-{number}",
        f"Accuracy by what is shown, {benchmark.name}",
        description,
        Table(f"{benchmark.name}: accuracy", ["scorer", *words], cells),
        dumbbells(rows, ignores_the_user=0.5 if benchmark.mirrored else None),
    )


def _dumbbells(
    benchmark: BenchmarkRuns, names: Names
) -> Iterator[tuple[str, dict[Mark, ReportedEstimate]]]:
    for name, f in zip(names.findings(benchmark.findings), benchmark.findings, strict=True):
        gold = next((run for run in benchmark.oracles if run.summary.scorer == f.scorer), None)
        runs = {NOTHING: f.nothing, STRANGER: f.stranger, OWN: f.own_run, GOLD: gold}
        yield name, {mark: run.summary.accuracy for mark, run in runs.items() if run is not None}


def _accuracy(run: Run | None) -> Number:
    return NONE if run is None else figure(run.summary.accuracy)


def _gain(gain: Gain | None, word: str, span: tuple[float, float]) -> Number:
    if gain is None or gain.value is None:
        return NONE
    drawn = Drawn(figure(gain, signed=True), gain.value, gain.low, gain.high)
    low, high = (gain.value if end is None else end for end in (gain.low, gain.high))
    zero, *x = (
        7 + 106 * (each - span[0]) / (span[1] - span[0]) for each in (0.0, low, gain.value, high)
    )
    drawn.drawing = Markup(
        '<svg class="gain" aria-hidden="true" viewBox="0 0 120 14"><path class="zero" '
        'd="M{5:.1f} 0V14"/><path class="whisker" d="M{0:.1f} 7H{2:.1f}M{0:.1f} 4V10M{2:.1f} 4V10"'
        '/><use href="#mark-{3}" x="{4:.1f}" y="1" width="12" height="12"/></svg>'
    ).format(*x, SHAPES[word] if word in ("yes", "stranger's") else "ring", x[1] - 6, zero)
    return drawn


def _notes(benchmark: BenchmarkRuns, names: Names) -> Iterator[str]:
    main_findings = {f.scorer for f in benchmark.main_findings}
    oracles = [run for run in benchmark.oracles if run.summary.scorer in main_findings]
    if oracles:
        best = ", ".join(
            f"{names.scorer(run.summary.scorer)} {plain(run.accuracy)}"
            for run in sorted(oracles, key=lambda run: -(run.accuracy or 0.0))[:3]
        )
        shown = names.context(oracles[0].summary.context)
        yield f"Upper bound, shown the gold {shown}: {best}."
    if benchmark.mirrored and benchmark.runs[0].verdicts.exact:
        yield Markup(
            'On <a href="#word-mirrored-couple">mirrored couples</a> a scorer that ignores the '
            "user gets exactly 0.500."
        )
    yield Markup(
        'In brackets: <a href="#word-95-interval">95 % interval</a>. '
        '<a href="#word-identity-gain">Identity gain</a>: <a href="#word-accuracy">accuracy</a> '
        'with the user’s own posts minus with a <a href="#word-stranger">stranger’s</a>. p: '
        '<a href="#word-holm">Holm</a>-corrected; <a href="#word-baseline">baselines</a> have none.'
    )
    if any(f.identity and f.identity.state_against for f in benchmark.findings):
        yield (
            "Of a personal model the columns are its states: nothing is the prior’s, stranger’s "
            "is another user’s."
        )
    reasons = (
        (names.scorer(f.scorer), told.note)
        for f in benchmark.findings
        for told in (f.run.summary.accuracy, f.identity)
        if told is not None
    )
    yield from map(names.public, without_interval(reasons, between=", "))


def ranking(contents: Contents) -> Section:
    """Return the ranks that the tests leave open, under the context with the most scorers."""
    parts: list[Picture] = []
    contexts: dict[str, None] = {}
    for k, benchmark in enumerate(contents.benchmarks, 1):
        by_context = Counter(f.context for f in benchmark.main_findings)
        context = max(by_context, key=lambda each: (by_context[each], each), default="")
        if context and (made := _ranking(benchmark, context, contents.names, k)) is not None:
            parts.append(made)
            contexts[contents.names.context(context)] = None
    listed = " or ".join(contexts)
    lead = f"Under {listed} scorers are compared on what they are shown alike."
    return Section("ranking", "Which would I deploy?", parts, lead)


def _ranking(benchmark: BenchmarkRuns, context: str, names: Names, number: int) -> Picture | None:
    findings = [
        f for f in benchmark.findings if f.context == context and f.run.accuracy is not None
    ]
    runs = list({f.scorer: f.run for f in findings if not f.baseline}.values())
    if len(runs) < 2:
        return None
    group = compare(runs).groups[0]
    ranked = {
        ", ".join(names.scorer(run.summary.scorer) for run in r.runs): r for r in group.ranking
    }
    baselines = grouped((f for f in findings if f.baseline), lambda f: f.run.accuracy or 0.0)
    lines = [
        (", ".join(sorted(names.scorer(f.scorer) for f in some)), value)
        for value, some in sorted(baselines.items())
    ]
    scorers = [(name, r.run.summary.accuracy) for name, r in ranked.items()]
    rows = [[name, figure(r.run.summary.accuracy), ranks(r)] for name, r in ranked.items()]
    title = f"{benchmark.name}: {len(ranked)} scorers under {names.context(context)}"
    note = f"Rank: what paired tests on {group.n_common:,} common rows, Holm-corrected, leave open."
    bars = joined(group)
    description = "A dot is a scorer’s accuracy, a line its 95 % interval."
    if bars:
        description += " A bar on the right joins scorers that no test tells apart."
    if lines:
        description += " Dashed lines are baselines."
    return Picture(
        f"ranking-{number}",
        f"Scorers by accuracy, {benchmark.name}",
        description,
        Table(title, ["scorer", "accuracy", "rank"], rows, [note]),
        rank_lines(scorers, bars, lines),
    )


def joined(group: ComparisonGroup) -> list[tuple[int, int]]:
    """Return the longest stretches of the ranking within which no test finds a difference."""
    place = {ranked.run.summary.scorer: k for k, ranked in enumerate(group.ranking)}
    apart = {
        tuple(sorted((place[t.a.scorer], place[t.b.scorer]))) for t in group.tests if is_shown(t)
    }
    stretches: list[tuple[int, int]] = []
    for first in range(len(place)):
        last = first
        while last + 1 < len(place) and apart.isdisjoint(
            (k, last + 1) for k in range(first, last + 1)
        ):
            last += 1
        if last > first and not any(last <= end for _, end in stretches):
            stretches.append((first, last))
    return stretches
