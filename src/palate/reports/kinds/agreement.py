"""Agreement of a study's raters: its tables, the paragraph for a paper, and its part of a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from palate.reports.names import context_name
from palate.reports.numbers import Number, count, figure, p_value, plain, without_interval
from palate.reports.page.names import Names
from palate.reports.page.parts import Text
from palate.reports.table import Table
from palate.runs import ReportedEstimate
from palate.study.agreement import Agreement, AgreementSummary, Panel

WIDTH, MOST_ITEMS = 100, 20
JACKKNIFE = "95 % by the jackknife over raters and pairs of answers."
ALPHA = "α: Krippendorff's; of choices, both orders of the two answers are counted."
HALVES = "Of pairs of raters of one item; a tie, or no difference, counts one half."
TOST = "Two one-sided tests; p is the larger one. Checks: an answer less one to another question."


def tables(result: Agreement) -> list[Table]:
    """Return agreement, equal quality, scorers, repeats, items that part people, and the words."""
    summary = result.summary
    words = Table("for the paper", [], [], [paragraph(summary)], width=WIDTH)
    drawn = (_reliability(summary), _quality(summary), _runs(summary), _again(summary))
    return [table for table in (*drawn, _items(result), words) if table.rows or not table.columns]


def _reliability(summary: AgreementSummary) -> Table:
    every = [(who, of) for who, panel in _panels(summary) for of in panel.reliability]
    rows = []
    for who, of in every:
        for scale, alpha in of.alpha.items():
            agreed = map(figure, (alpha, of.percent, of.gold))
            rows.append([_shown(of.of), who, scale, count(alpha.n), *agreed])
    reasons = [(_shown(of.of), alpha.note) for _, of in every for alpha in of.alpha.values()]
    notes = [_excluded(summary), f"{ALPHA} {JACKKNIFE}", *without_interval(reasons)]
    columns = ["", "raters", "scale", "units", "α [95 %]", "agree [95 %]", "as the gold [95 %]"]
    return Table(f"agreement of {summary.study}", columns, rows, notes, 3, width=WIDTH)


def _quality(summary: AgreementSummary) -> Table:
    rows = [
        [of.dimension, who, _signed(of.difference), p_value(of.p), _signed(of.checks), of.words]
        for who, panel in _panels(summary)
        for of in panel.quality
    ]
    columns = ["", "raters", "chosen − rejected [95 %]", "p", "on checks [95 %]", "finding"]
    title = f"equally good, within {summary.margin:g} points?"
    return Table(title, columns, rows, [TOST], 2, width=WIDTH)


def _runs(summary: AgreementSummary) -> Table:
    rows: list[list[str]] = []
    for who, panel in _panels(summary):
        for of in panel.runs:
            shares = [*map(figure, (of.with_rater, of.between_raters)), _signed(of.difference)]
            rows.append([of.scorer, _shown(of.context), who, *shares, p_value(of.p_holm)])
    columns = ["scorer", "shown", "raters", "with a rater [95 %]", "another rater [95 %]"]
    columns += ["difference [95 %]", "p (Holm)"]
    return Table("scorers beside people", columns, rows, [HALVES], 3, width=WIDTH)


def _again(summary: AgreementSummary) -> Table:
    rows, notes, columns = [], [], ["repeats", "agree [95 %]", "best scorer from", "to"]
    if again := summary.retest:
        ends = map(plain, again.ceiling or (None, None))
        drift = [count(again.n_late), _signed(again.drift), p_value(again.p)]
        rows = [[count(again.agreement.n), figure(again.agreement), *ends, *drift]]
        columns += [f"after {again.days:g} days", "drift [95 %]", "p"]
        notes = [f"Drift: {again.drifted}. {again.n_undecided:,} without a side are left out."]
    return Table("asked again", columns, rows, notes, 0, width=WIDTH)


def _items(result: Agreement) -> Table:
    apart = [row for row in result.rows if row.disagreement]
    rows = []
    for row in apart[:MOST_ITEMS]:
        choices = ", ".join(f"{n} {choice}" for choice, n in row.choices.items())
        rows.append([row.item, choices, plain(row.disagreement)])
    notes = [f"{len(apart):,} items part raters; rows.jsonl of the result has every item."]
    return Table("to adjudicate", ["item", "choices", "disagree"], rows, notes, 2, width=WIDTH)


def paragraph(summary: AgreementSummary) -> str:
    """Return what a paper prints of the raters who count."""
    panel = summary.panels[0]
    told = [f"{panel.raters:,} people gave {panel.answers:,} answers to {summary.items:,} items."]
    told += [_excluded(summary)]
    for of in panel.reliability:
        alphas = ", ".join(f"{scale} {figure(alpha)}" for scale, alpha in of.alpha.items())
        told += [f"{_shown(of.of)}: two agree in {figure(of.percent)}; Krippendorff's α {alphas}."]
    for each in panel.quality:
        told += [
            f"{each.dimension}: chosen less rejected {_signed(each.difference)} points, margin "
            f"{summary.margin:g}, p {p_value(each.p)}: {each.words}."
        ]
    for run in panel.runs:
        told += [
            f"{run.scorer} ({_shown(run.context)}) agrees with a rater in {figure(run.with_rater)},"
            f" another rater in {figure(run.between_raters)}; difference {_signed(run.difference)},"
            f" p {p_value(run.p_holm)}."
        ]
    return " ".join([*told, f"Intervals are {JACKKNIFE}"])


def _panels(summary: AgreementSummary) -> list[tuple[str, Panel]]:
    ends = ("", " (all)")
    return [
        (f"{panel.raters}{end}", panel) for panel, end in zip(summary.panels, ends, strict=False)
    ]


def _excluded(summary: AgreementSummary) -> str:
    most = summary.most_failed_checks
    rule = "too many checks" if most is None else f"more than {most} checks"
    return f"Excluded, since they failed {rule}: {summary.excluded:,} raters."


def _shown(context: str) -> str:
    return context_name(context) if context else "–"


def _signed(estimate: ReportedEstimate) -> Number:
    return figure(estimate, signed=True)


def parts(result: Agreement, names: Names, number: int) -> Iterator[object]:
    """Yield the tables under a heading, without items: their ids are the study's own."""
    yield Text("How far people agree", "h3")
    yield from (names.table(table) for table in tables(replace(result, rows=())))
