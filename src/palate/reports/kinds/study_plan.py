"""The plan of a study: who is asked how much, what it can show, and whose texts are read."""

from __future__ import annotations

from collections.abc import Iterator

from palate.benchmarks import Dataset
from palate.metrics import equivalence_power
from palate.records import user_key
from palate.reports.names import context_name
from palate.reports.numbers import Number, count, plain
from palate.reports.table import Table
from palate.study import Study
from palate.words import shortened

WIDTH, NAMED, LONGEST = 100, 3, 12
RATER_SDS = (0.08, 0.3)
"""Spreads of raters, in points, between which real ones lie."""
ASKS = {"better": "which is better, and ratings", "prefers": "which would this person prefer"}


def tables(study: Study, dataset: Dataset) -> list[Table]:
    """Return what is asked of whom, the power of equivalence, and whose texts raters read."""
    if study.plan.mode == "judge":
        return [_lists(study, dataset), *_power(study), *_readers(study, dataset)]
    plan, n_test = study.plan, len(study.plan.lists[0])
    note = (
        f"Each is asked {plan.per_rater} pairs: {100 * plan.test_share:g} % test pairs, in one "
        f"order for all; {100 * plan.again:g} % an earlier one again; the rest "
        + (f"chosen by {plan.model}." if plan.model else "drawn at random.")
    )
    rows = [["test", count(n_test)], ["adapt", count(len(study.items) - n_test)]]
    title = f"collection on {plan.benchmark}: {plan.raters:,} raters"
    return [Table(title, ["split", "pairs"], rows, [note], width=WIDTH)]


def _lists(study: Study, dataset: Dataset) -> Table:
    plan, cells, notes = study.plan, [], []
    for context in plan.contexts:
        behind = [row for row in study.gold if row.context == context]
        name, items = context_name(context), {row.item for row in behind}
        asks = {ASKS[study.items[item].asks] for item in items}
        cells.append([name, *(asks or {"nothing"}), count(len(items)), count(len(behind))])
        if left_out := len({row.id for row in dataset.rows} - {row.row for row in behind}):
            notes.append(f"{left_out:,} rows have nothing to show under {name}: left out of it.")
    n_each = sum(entry.item in plan.checks for entry in plan.lists[0])
    sizes = " or ".join(str(n) for n in sorted({len(listed) - n_each for listed in plan.lists}))
    notes += [
        f"Each item goes to {plan.per_pair} raters. A rater gets {sizes} items, and no pair of "
        "answers twice.",
        f"Each gets {n_each} of {len(plan.checks)} checks too; who fails more than "
        f"{plan.most_failed_checks} is excluded.",
    ]
    n_pairs = len({study.items[row.item].pair for row in study.gold})
    title = f"study of {plan.benchmark}: {n_pairs:,} pairs of answers, {plan.raters:,} raters"
    return Table(title, ["context", "asks", "items", "rows"], cells, notes, 2, width=WIDTH)


def _power(study: Study) -> Iterator[Table]:
    plan = study.plan
    rated = {row.item for row in study.gold if study.items[row.item].asks == "better"}
    if not (rated and plan.checks):
        note = "none, for equivalence needs ratings (-c none) and checks."
        yield Table("power", [], [], [note], width=WIDTH)
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
        yield Table("raters will read", [], [], [note], width=WIDTH)
