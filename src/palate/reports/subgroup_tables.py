"""A grid by subgroups of users or rows, and the share of users harmed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.reports.names import context_name, legend, short_names
from palate.reports.numbers import NONE, figure, p_value, plain, without_interval
from palate.reports.table import Table, breaks_between
from palate.runs import SubgroupReport


def group_tables(views: Sequence[SubgroupReport]) -> list[Table]:
    """Return, per benchmark and grouping, accuracy by group, and gaps and losers by run."""
    tables = []
    for benchmark, by in dict.fromkeys((view.benchmark, view.by) for view in views):
        mine = [view for view in views if (view.benchmark, view.by) == (benchmark, by)]
        told = next((view.note for view in mine if view.note), None)
        if told is not None:
            tables.append(Table(f"{benchmark}: by {by}", [], [], [f"{told}."]))
            continue
        tables += [_by_group(benchmark, by, mine), _by_run(benchmark, by, mine)]
    return tables


def _by_group(benchmark: str, by: str, views: Sequence[SubgroupReport]) -> Table:
    short = short_names(view.scorer for view in views)
    rows = [
        [
            short[view.scorer],
            context_name(view.context, oracle=view.oracle),
            group.name,
            figure(group.accuracy),
            f"{group.n_pairs:,}",
            f"{group.n_users:,}" + ("*" if group.under_10_users else ""),
            plain(group.worst_decile["shrunken"]),
        ]
        for view in views
        for group in view.groups
    ]
    notes = [
        "Intervals: jackknife by user and, where users share questions, by question (by response "
        "within one question). worst tenth: mean over the lowest tenth of the subgroup's users, "
        "shrunken."
    ]
    notes += without_interval(
        (group.name, group.accuracy.note) for view in views for group in view.groups
    )
    if any(group.under_10_users for view in views for group in view.groups):
        notes.append(
            "*: under 10 users; the interval is unreliable, and no gap counts the subgroup."
        )
    if views[0].n_unlabelled:
        notes.append(f"{views[0].n_unlabelled:,} pairs name no {by}; they are in no subgroup.")
    columns = [
        "scorer",
        "context",
        by.removeprefix("trait:"),
        "accuracy [95 %]",
        "pairs",
        "users",
        "worst tenth",
    ]
    breaks = breaks_between(f"{view.scorer} {view.context}" for view in views for _ in view.groups)
    return Table(f"{benchmark}: accuracy by {by}", columns, rows, notes, 3, breaks)


def _by_run(benchmark: str, by: str, views: Sequence[SubgroupReport]) -> Table:
    short = short_names(view.scorer for view in views)
    harmed = any(view.users_harmed is not None for view in views)
    columns = ["scorer", "context", f"largest gap by {by}", "gap [95 %]", "p (Holm)", "worst tenth"]
    columns += ["harmed [95 %]", "users"] if harmed else []
    rows = []
    for view in views:
        worst = view.worst_decile or {}
        cells = [short[view.scorer], context_name(view.context, oracle=view.oracle), *_gap(view)]
        cells.append(f"{plain(worst.get('raw'))} / {plain(worst.get('shrunken'))}")
        rows.append(cells + (_harmed(view) if harmed else []))
    notes = [*_notes(views, harmed), *legend(short)]
    return Table(f"{benchmark}: gaps by {by}, and users", columns, rows, notes, 3)


def _gap(view: SubgroupReport) -> list[str]:
    gap = view.largest_gap
    if gap is None:
        return [NONE, NONE, NONE]
    return [f"{gap.a} − {gap.b}", figure(gap, signed=True), p_value(gap.p_holm)]


def _harmed(view: SubgroupReport) -> list[str]:
    share = view.users_harmed
    return [NONE, NONE] if share is None else [figure(share), f"{share.n:,}"]


def _notes(views: Sequence[SubgroupReport], harmed: bool) -> Iterator[str]:
    gaps = [view.largest_gap for view in views if view.largest_gap is not None]
    if gaps:
        yield (
            "gap: the largest between subgroups of 10 users or more. p is Holm-corrected over all "
            f"such gaps of a run ({max(gap.n_tested for gap in gaps)})."
        )
        yield from without_interval((f"{gap.a} − {gap.b}", gap.note) for gap in gaps)
    else:
        yield "There is no gap: fewer than two subgroups have 10 users or more."
    yield "worst tenth: mean over the lowest tenth of all users, raw / shrunken."
    if harmed:
        yield (
            "harmed: share of users whose accuracy is lower than with nothing shown: P(true "
            "difference < 0) of a normal model. users: behind the model, with two pairs or more "
            "(on different questions where users share some)."
        )
        shares = [view.users_harmed for view in views if view.users_harmed is not None]
        yield from without_interval(("harmed", share.note) for share in shares)
