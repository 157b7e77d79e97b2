"""Agreement of a study's raters: its tables, the paragraph for a paper, and its part of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """Return agreement, equal quality, scorers, items that part people, repeats, and the words."""
    summary = result.summary
    in_words = {"asked again": _again(summary), "for the paper": [paragraph(summary)]}
    lines = [Table(title, [], [], notes, width=WIDTH) for title, notes in in_words.items() if notes]
    return [*_figures(summary), *_items(result), *lines]


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


def _again(summary: AgreementSummary) -> list[str]:
    """Return what repeats tell, in words; nothing where there are none."""
    again = summary.retest
    if again is None:
        return []
    low, high = map(plain, again.ceiling or (None, None))
    return [
        f"People chose alike in {figure(again.agreement)} of {again.agreement.n:,} repeats, so the "
        f"best scorer is right in {low} to {high}; {again.n_undecided:,} without a side are left "
        f"out. Drift, what changes after {again.days:g} days (n {again.n_late:,}) beyond what "
        f"changes before: {figure(again.drift, signed=True)}, p {p_value(again.p)}, "
        f"{again.drifted}."
    ]


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
    sentences = [
        f"{panel.raters:,} people gave {panel.answers:,} answers to {panel.items:,} items."
    ]
    if most or out:
        rule = f"more than {most} check{'s' * (most != 1)}" if most else "too many checks"
        sentences.append(f"Left out since they failed {rule}: {out:,}.")
    for table in _figures(summary, 1):
        names = groupby(table.rows, key=itemgetter(0))
        groups = [f"{name} ({'; '.join(map(_words, rows))})" for name, rows in names]
        sentences += [
            f"{table.title.rpartition(':')[0].capitalize()}: {', '.join(groups)}.",
            *table.notes,
        ]
    return " ".join([*sentences, *_again(summary), JACKKNIFE])


def _words(row: Sequence[str]) -> str:
    _, measure, n, value, *tested = row
    p, finding = tested or ("–", "")
    return f"{measure} {value}, n {n}{'' if p == '–' else f', p {p}'}{finding and f', {finding}'}"


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
