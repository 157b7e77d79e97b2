"""Agreement of a study's raters: its tables, the paragraph for a paper, and its part of a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from palate.reports.names import context_name
from palate.reports.numbers import count, figure, p_value, plain, without_interval
from palate.reports.page.names import Names
from palate.reports.page.parts import Text
from palate.reports.table import Table, breaks_between
from palate.study.agreement import Agreement, AgreementSummary, Figure

WIDTH, MOST_ITEMS = 100, 20
JACKKNIFE = "Intervals are 95 %, by the jackknife over raters and pairs of answers."
TITLES = {
    "choices": (
        "choices",
        "α: Krippendorff's, over both orders of the two answers. n: items; of the gold, answers.",
    ),
    "ratings": ("ratings from 1 to 5", "α: Krippendorff's. n: texts that several raters rated."),
    "quality": (
        "equal quality, within {:g} points",
        "p: the larger of two one-sided tests. n: answers, of raters with rated checks if any has.",
    ),
    "scorers": (
        "scorers beside people",
        "n: pairs of raters of one item; ties count one half. p: corrected over scorers (Holm).",
    ),
}


def tables(result: Agreement) -> list[Table]:
    """Return agreement, equal quality, scorers, repeats, items that part people, and the words."""
    summary = result.summary
    drawn = [*_figures(summary), *_again(summary), *_items(result)]
    return [*drawn, Table("for the paper", [], [], [paragraph(summary)], width=WIDTH)]


def _figures(summary: AgreementSummary, n_panels: int = 2) -> Iterator[Table]:
    for panel, who in zip(summary.panels[:n_panels], ("", ", with the excluded"), strict=False):
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
    panel, most, out = summary.panels[0], summary.most_failed_checks, summary.excluded
    told = [f"{panel.raters:,} people gave {panel.answers:,} answers to {panel.items:,} items."]
    if most or out:
        rule = f"more than {most} check{'s' * (most != 1)}" if most else "too many checks"
        told.append(f"Left out since they failed {rule}: {out:,}.")
    for table in _figures(summary, 1):
        groups = []
        for name, rows in groupby(table.rows, key=itemgetter(0)):
            figures, above = [], None
            for _, measure, n, value, *tested in rows:
                p, finding = tested or ("–", "")
                told_of = f"{measure} {value}", "" if n == above else f"n {n}"
                tests = "" if p == "–" else f"p {p}", finding
                figures.append(", ".join(filter(None, (*told_of, *tests))))
                above = n
            groups.append(f"{name} ({'; '.join(figures)})")
        title = table.title.rpartition(":")[0].capitalize()
        told += [f"{title}: {', '.join(groups)}.", *table.notes]
    if (again := summary.retest) and again.ceiling:
        a, best = map(plain, again.ceiling)
        told.append(
            f"Asked again, people chose alike in {figure(again.agreement)} of "
            f"{again.agreement.n:,} choices, so the best scorer is right in {a} to {best}."
        )
        if again.drift.value is not None:
            told.append(
                f"Drift, what changes after {again.days:g} days (n {again.n_late:,}) beyond what "
                f"changes before: {figure(again.drift, signed=True)}, p {p_value(again.p)}, "
                f"{again.drifted}."
            )
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
