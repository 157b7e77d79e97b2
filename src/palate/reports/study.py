"""A study: its plan, and the agreement of its raters, as tables and in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from palate.benchmarks import Dataset
from palate.metrics import equivalence_power
from palate.records import user_key
from palate.reports.names import context_name
from palate.reports.numbers import Number, count, figure, many, p_value, plain, without_interval
from palate.reports.parts import section
from palate.reports.table import WIDTH, Table
from palate.study import Study
from palate.study.agreement import Agreement, AgreementSummary
from palate.study.panels import Figure
from palate.words import shortened

MOST_ITEMS = 20
SIGNED = {"chosen − rejected", "on checks", "difference"}
"""Figures that are differences."""
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


def agreement_tables(result: Agreement) -> list[Table]:
    """Return agreement, equal quality, scorers, items that part people, repeats, and the words."""
    summary = result.summary
    in_words = {"asked again": _again(summary), "for the paper": [paragraph(summary)]}
    lines = [Table(title, notes=notes, width=WIDTH) for title, notes in in_words.items() if notes]
    return [*_figures(summary), *_items(result), *lines]


def _figures(summary: AgreementSummary, n_panels: int = 2) -> Iterator[Table]:
    for panel, who in zip(summary.panels[:n_panels], ("", ", with the excluded"), strict=False):
        for group, (title, note) in TITLES.items():
            figures = [each for each in panel.figures if each.group == group]
            reasons = [(f"{_name(each)} {each.measure}", each.estimate.note) for each in figures]
            reasons += [
                (_name(each), each.finding) for each in figures if ":" in (each.finding or "")
            ]
            columns: dict[str, Callable[[Figure], str]] = {
                "": _name,
                "figure": lambda each: each.measure,
                "n": lambda each: count(each.estimate.n),
                "value [95 %]": lambda each: figure(each.estimate, signed=each.measure in SIGNED),
            }
            if group in {"quality", "scorers"}:
                columns["p"] = lambda each: p_value(each.p)
                columns["finding"] = lambda each: (each.finding or "").partition(":")[0]
            if figures:
                head = f"{title.format(summary.margin)}{who}: {many(panel.raters, 'rater')}"
                notes = [note, *without_interval(reasons)]
                yield Table.of(head, figures, columns, notes, 2, parted=1, width=WIDTH)


def _again(summary: AgreementSummary) -> list[str]:
    """Return what repeats tell, in words; nothing where there are none."""
    again = summary.retest
    if again is None:
        return []
    low, high = map(plain, again.ceiling or (None, None))
    return [
        f"People chose alike in {figure(again.agreement)} of {many(again.agreement.n, 'repeat')}, "
        f"so the best scorer is right in {low} to {high}; {again.n_undecided:,} without a side are "
        f"left out. Drift, what changes after {again.days:g} days (n {again.n_late:,}) beyond what "
        f"changes before: {figure(again.drift, signed=True)}, p {p_value(again.p)}, "
        f"{again.drifted}."
    ]


def _items(result: Agreement) -> Iterator[Table]:
    apart = [row for row in result.rows if row.disagreement]
    rows = []
    for row in apart[:MOST_ITEMS]:
        choices = ", ".join(f"{n} {choice}" for choice, n in row.choices.items())
        rows.append([row.item, choices, plain(row.disagreement)])
    notes = [f"Raters part on {many(len(apart), 'item')}; rows.jsonl of the result has every item."]
    if rows:
        yield Table("to adjudicate", ["item", "choices", "disagree"], rows, notes, 2, width=WIDTH)


def paragraph(summary: AgreementSummary) -> str:
    """Return what a paper prints of the raters who count."""
    panel, most, out = summary.panels[0], summary.most_failed_checks, summary.excluded
    sentences = [
        f"{'1 person' if panel.raters == 1 else f'{panel.raters:,} people'} gave "
        f"{many(panel.answers, 'answer')} to {many(panel.items, 'item')}."
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
    if each.group != "choices":
        return each.of
    return context_name(each.of) if each.of else "all"


# Without items: their ids are the study's own.
agreement_parts = section(
    "How far people agree", lambda result: agreement_tables(replace(result, rows=()))
)


NAMED, LONGEST = 3, 12
RATER_SDS = (0.08, 0.3)
"""Spreads of raters, in points, between which real ones lie."""
QUESTIONS = {"better": "which is better, and ratings", "prefers": "which would this person prefer"}


def plan_tables(study: Study, dataset: Dataset) -> list[Table]:
    """Return what is asked of whom, the power of equivalence, and whose texts raters read."""
    if study.plan.mode == "judge":
        return [_lists(study, dataset), *_power(study), *_readers(study, dataset)]
    plan, n_test = study.plan, len(study.plan.lists[0])
    note = (
        f"Each is asked {many(plan.per_rater or 0, 'pair')}: {100 * plan.test_share:g} % test "
        f"pairs, in one order for all; {100 * plan.again:g} % an earlier one again; the rest "
        + (f"chosen by {plan.model}." if plan.model else "drawn at random.")
    )
    rows = [["test", count(n_test)], ["adapt", count(len(study.items) - n_test)]]
    title = f"collection on {plan.benchmark}: {many(plan.raters, 'rater')}"
    return [Table(title, ["split", "pairs"], rows, [note], width=WIDTH)]


def _lists(study: Study, dataset: Dataset) -> Table:
    plan, cells, notes = study.plan, [], []
    for context in plan.contexts:
        behind = [row for row in study.gold if row.context == context]
        name, items = context_name(context), {row.item for row in behind}
        asks = {QUESTIONS[study.items[item].asks] for item in items}
        asks = asks if plan.rated else {text.removesuffix(", and ratings") for text in asks}
        cells.append([name, *(asks or {"nothing"}), count(len(items)), count(len(behind))])
        if left_out := len({row.id for row in dataset.rows} - {row.row for row in behind}):
            notes.append(f"{many(left_out, 'row')}: nothing to show under {name}, so left out.")
    n_each = sum(entry.item in plan.checks for entry in plan.lists[0])
    *fewer, most = sorted({len(listed) - n_each for listed in plan.lists})
    sizes = " or ".join([*map(str, fewer), many(most, "item")])
    notes += [
        f"Each item goes to {many(plan.per_pair, 'rater')}. A rater gets {sizes}, and no pair of "
        "answers twice.",
        f"Each gets {n_each} of {many(len(plan.checks), 'check')} too; who fails more than "
        f"{plan.most_failed_checks} is excluded.",
    ]
    n_pairs = len({study.items[row.item].pair for row in study.gold})
    size = f"{many(n_pairs, 'pair')} of answers, {many(plan.raters, 'rater')}"
    title = f"study of {plan.benchmark}: {size}"
    return Table(title, ["context", "asks", "items", "rows"], cells, notes, 2, width=WIDTH)


def _power(study: Study) -> Iterator[Table]:
    plan = study.plan
    gold = study.gold if plan.rated else ()
    rated = {row.item for row in gold if study.items[row.item].asks == "better"}
    if not (rated and plan.checks):
        note = "none, for equivalence needs ratings (-c none) and checks."
        yield Table("power", notes=[note], width=WIDTH)
        return
    n, cells = len({study.items[item].pair for item in rated}), []
    for sd in RATER_SDS:
        spread = {"margin": plan.margin, "rater_sd": sd}
        power = equivalence_power(plan.raters, n, plan.per_pair, **spread)
        cells.append([Number(f"{sd:g}", sd), plain(power)])
    notes = [f"For a true difference of 0; {n:,} pairs × {plan.per_pair} ratings."]
    if mirrored := sum(len({row.chosen for row in study.gold_of[item]}) > 1 for item in rated):
        law = "there the difference is 0 by law, so nothing is to be tested"
        notes.append(f"{mirrored:,} of them are mirrored couples: {law}.")
    title = f"power to show that chosen and rejected are rated alike, within {plan.margin:g} points"
    yield Table(title, ["spread of raters", "power"], cells, notes, width=WIDTH)


def _readers(study: Study, dataset: Dataset) -> Iterator[Table]:
    rows = (*dataset.everyone, *dataset.rows, *dataset.history)
    names = {user_key(row.user_id): row.user_id for row in rows}
    texts, users = set(), set()
    for name, behind in study.gold_of.items():
        askers, item = {row.user for row in behind}, study.items[name]
        texts |= {part.text for part in item.shown}
        # A stranger is among the users of an item, and asks nothing in it.
        users |= {names[key] for key in {*item.users} - askers or askers if item.shown}
    if users:
        first = ", ".join(shortened(name, LONGEST) for name in sorted(users)[:NAMED])
        who = f"{len(users):,} users ({first}{', …' if len(users) > NAMED else ''})"
        note = f"{len(texts):,} texts of {who}: be sure that you may."
        yield Table("raters will read", notes=[note], width=WIDTH)
