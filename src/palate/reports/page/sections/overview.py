"""Sections 1 to 3: the finding in a sentence, the scorers in a table, and as dumbbells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from palate.reports.alarms import alarms_of
from palate.reports.numbers import NONE, Number, figure, p_value, plain, without_interval
from palate.reports.page.contents import BenchmarkRuns
from palate.reports.page.figures.plots import (
    GOLD,
    MARKS,
    NOTHING,
    OWN,
    STRANGER,
    Mark,
    dumbbells,
)
from palate.reports.page.names import Names
from palate.reports.page.parts import Picture, symbol
from palate.reports.table import Table
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
    effects = [
        f.identity.minimum_detectable_effect
        for f in benchmark.main_findings
        if f.identity and f.identity.minimum_detectable_effect
    ]
    if not effects:
        return ""
    return (
        f"On {benchmark.size} the minimum detectable identity gain is {plain(max(effects))} at "
        "worst (80 % power), so “not shown” does not mean absent."
    )


def scorers(benchmark: BenchmarkRuns, names: Names, number: int) -> Iterator[Table]:
    """Yield the table of scorers: a row per scorer and context that shows the user's own."""
    del number
    if not benchmark.findings:
        return
    extra = [] if benchmark.mirrored else ["by user", "same length"]
    columns = [
        "scorer",
        "context",
        "nothing",
        "own",
        *extra,
        "stranger’s",
        "identity gain",
        "p",
        "finding",
    ]
    ends = [
        end
        for f in benchmark.findings
        if f.identity
        for end in (f.identity.low, f.identity.high, f.identity.value)
        if end is not None
    ]
    span = min([0.0, *ends]), max([0.01, *ends])
    alarmed = {run.summary.scorer for run, _ in alarms_of(benchmark.runs)}
    rows = []
    for f in benchmark.findings:
        summary = f.run.summary
        more = (
            []
            if benchmark.mirrored
            else [figure(summary.macro_accuracy), figure(summary.length_controlled)]
        )
        name = names.scorer(f.scorer)
        for tag in ["baseline"] * f.baseline + ["look"] * (f.scorer in alarmed):
            name = Markup("{} <span class='tag'>{}</span>").format(name, tag)
        rows.append(
            [
                name,
                names.context(f.context),
                _accuracy(f.nothing),
                _accuracy(f.run),
                *more,
                _accuracy(f.stranger),
                _gain(f.identity, f.word, span),
                p_value(f.identity.p_holm if f.identity and not f.baseline else None),
                _finding(f.word),
            ]
        )
    title = f"{benchmark.name}: {benchmark.size}"
    yield Table(title, columns, rows, list(_notes(benchmark, names)), 2)


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
    marks = [mark for mark in MARKS if any(mark in figures for _, figures in rows)]
    words = [mark.word for mark in marks]
    cells = [[name, *(figure(figures.get(mark)) for mark in marks)] for name, figures in rows]
    table = Table(f"{benchmark.name}: accuracy", ["scorer", *words], cells, [])
    description = f"A dot is a scorer’s accuracy with {', '.join(words)}."
    description += " A thin line is the 95 % interval of the user’s own."
    if benchmark.mirrored:
        description += " The dashed line is a scorer that ignores the user."
    title = f"Accuracy by what is shown, {benchmark.name}"
    drawing = dumbbells(rows, ignores_the_user=0.5 if benchmark.mirrored else None)
    yield Picture(f"accuracy-{number}", title, description, table, drawing)


def _dumbbells(
    benchmark: BenchmarkRuns, names: Names
) -> Iterator[tuple[str, dict[Mark, ReportedEstimate]]]:
    for name, f in zip(names.findings(benchmark.findings), benchmark.findings, strict=True):
        gold = next((run for run in benchmark.oracles if run.summary.scorer == f.scorer), None)
        runs: Sequence[tuple[Mark, Run | None]] = (
            (NOTHING, f.nothing),
            (STRANGER, f.stranger),
            (OWN, f.run),
            (GOLD, gold),
        )
        figures = {mark: run.summary.accuracy for mark, run in runs if run is not None}
        if f.nothing is f.run:
            del figures[OWN]
        yield name, figures


def _accuracy(run: Run | None) -> Number:
    return NONE if run is None else figure(run.summary.accuracy)


def _gain(gain: Gain | None, word: str, span: tuple[float, float]) -> Number:
    text = figure(gain, signed=True)
    if gain is None or gain.value is None:
        return NONE
    drawn = Drawn(text, text.value, text.low, text.high)
    low = gain.value if gain.low is None else gain.low
    high = gain.value if gain.high is None else gain.high
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
    if benchmark.mirrored:
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
