"""Agreement of a study's raters: its tables, the paragraph for a paper, and its part of a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from palate.reports.names import context_name
from palate.reports.numbers import count, figure, p_value, plain, without_interval
from palate.reports.page.names import Names
from palate.reports.page.parts import Text
from palate.reports.table import Table, breaks_between
from palate.study.agreement import Agreement, AgreementSummary, Figure

WIDTH, MOST_ITEMS = 100, 20
JACKKNIFE = "Intervals are 95 %, by the jackknife over raters and pairs of answers."
ALPHA = "α: Krippendorff's"
TITLES = {
    "choices": ("choices", f"{ALPHA}; both orders of the two answers are counted."),
    "ratings": ("ratings from 1 to 5", f"{ALPHA}; a unit is an answer."),
    "quality": ("equal quality, within {:g} points", "p: the larger of two one-sided tests."),
    "scorers": ("scorers beside people", "Over pairs of raters of one item; ties count one half."),
}


def tables(result: Agreement) -> list[Table]:
    """Return agreement, equal quality, scorers, repeats, items that part people, and the words."""
    summary = result.summary
    drawn = [*_figures(summary), *_again(summary), *_items(result)]
    return [*drawn, Table("for the paper", [], [], [paragraph(summary)], width=WIDTH)]


def _figures(summary: AgreementSummary) -> Iterator[Table]:
    for panel, who in zip(summary.panels, ("", ", with the excluded"), strict=False):
        for group, (title, note) in TITLES.items():
            figures = [each for each in panel.figures if each.group == group]
            tested = group in {"quality", "scorers"}
            rows = [
                [_name(each), each.measure, count(each.estimate.n), _value(each)]
                + ([p_value(each.p), (each.finding or "").partition(":")[0]] if tested else [])
                for each in figures
            ]
            reasons = [(f"{_name(each)} {each.measure}", each.estimate.note) for each in figures]
            reasons += [
                (_name(each), each.finding) for each in figures if ":" in (each.finding or "")
            ]
            columns = ["", "figure", "n", "value [95 %]", *(["p", "finding"] if tested else [])]
            if rows:
                head = f"{title.format(summary.margin)}{who}: {panel.raters:,} raters"
                breaks = breaks_between(name for name, *_ in rows)
                notes = [note, *without_interval(reasons)]
                yield Table(head, columns, rows, notes, 2, breaks, width=WIDTH)


def _again(summary: AgreementSummary) -> Iterator[Table]:
    if again := summary.retest:
        drift = [count(again.n_late), figure(again.drift, signed=True), p_value(again.p)]
        ends = map(plain, again.ceiling or (None, None))
        rows = [[count(again.agreement.n), figure(again.agreement), *ends, *drift]]
        columns = ["n", "alike [95 %]", "best scorer from", "to"]
        columns += [f"after {again.days:g} days", "drift [95 %]", "p"]
        notes = [f"Drift: {again.drifted}. {again.n_undecided:,} without a side are left out."]
        yield Table("asked again", columns, rows, notes, 0, width=WIDTH)


def _items(result: Agreement) -> Iterator[Table]:
    apart = [row for row in result.rows if row.disagreement]
    rows = []
    for row in apart[:MOST_ITEMS]:
        choices = ", ".join(f"{n} {choice}" for choice, n in row.choices.items())
        rows.append([row.item, choices, plain(row.disagreement)])
    notes = [f"{len(apart):,} items part raters; rows.jsonl of the result has every item."]
    if rows:
        yield Table("to adjudicate", ["item", "choices", "disagree"], rows, notes, 2, width=WIDTH)


def paragraph(summary: AgreementSummary) -> str:
    """Return what a paper prints of the raters who count."""
    panel, most = summary.panels[0], summary.most_failed_checks
    rule = "too many checks" if most is None else f"more than {most} checks"
    told = [
        f"{panel.raters:,} people gave {panel.answers:,} answers to {panel.items:,} items. "
        f"Left out since they failed {rule}: {summary.excluded:,}."
    ]
    for group, (title, note) in TITLES.items():
        figures = [
            f"{_name(each)} {each.measure} {_value(each)}"
            + ("" if each.p is None else f", p {p_value(each.p)}")
            + (f", {each.finding}" if each.finding else "")
            for each in panel.figures
            if each.group == group
        ]
        if figures:
            told += [f"{title.format(summary.margin).capitalize()}: {'; '.join(figures)}. {note}"]
    return " ".join([*told, JACKKNIFE])


def _name(each: Figure) -> str:
    if each.group == "choices":
        return context_name(each.of) if each.of else "all"
    return each.of


def _value(each: Figure) -> str:
    signed = each.measure in {"chosen − rejected", "on checks", "difference"}
    return figure(each.estimate, signed=signed)


def parts(result: Agreement, names: Names, number: int) -> Iterator[object]:
    """Yield the tables under a heading, without items: their ids are the study's own."""
    yield Text("How far people agree", "h3")
    yield from (names.table(table) for table in tables(replace(result, rows=())))
