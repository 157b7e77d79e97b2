"""Users as tables: accuracy by subgroup, users harmed, their ratings, what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from palate.comparison import IdentityParts
from palate.contexts import shows
from palate.records.arguments import grouped
from palate.reports.names import ShortNames, context_name, fitting, legend, short_names
from palate.reports.numbers import (
    NONE,
    count,
    counted,
    figure,
    p_value,
    plain,
    point,
    without_interval,
)
from palate.reports.table import Table, breaks_between
from palate.runs import Cost, RatingReport, SubgroupGap, SubgroupReport

MOST_USERS, LONGEST_CONTEXT = 50, 60
"""A screen lists so many users, and names contexts so long."""
KINDS = "individual: own − a stranger of the kind. kind: that stranger − any. Rows have all three."


def group_tables(views: Sequence[SubgroupReport]) -> list[Table]:
    """Return, per benchmark and grouping, accuracy by group, and gaps and losers by run."""
    tables = []
    for (benchmark, by, lent), mine in grouped(views, _table_key).items():
        told = next((view.note for view in mine if view.note), None)
        if told is not None:
            tables.append(Table(f"{benchmark}: by {by}", notes=[f"{told}."]))
        elif by == "user":
            tables.append(_by_user(benchmark, mine, lent))
        else:
            tables += [_by_group(benchmark, by, mine), _by_run(benchmark, by, mine)]
    return tables


def _table_key(view: SubgroupReport) -> tuple[str, str, str]:
    # Lent users may have the names of the rows' own.
    lent = view.by == "user" and shows(view.context) == "borrowed"
    return view.benchmark, view.by, view.context if lent else ""


def _by_user(benchmark: str, views: Sequence[SubgroupReport], lent: str) -> Table:
    short = short_names(view.scorer for view in views)
    shown = [{group.name: group for group in view.groups} for view in views]
    sizes = {name: group.n_pairs for groups in shown for name, group in groups.items()}
    users = sorted(sizes, key=lambda name: (-sizes[name], name))
    rows = [
        [user, count(sizes[user])]
        + [point(groups[user].accuracy) if user in groups else NONE for groups in shown]
        for user in users[:MOST_USERS]
    ]
    notes = ["Accuracy on each user's pairs, ties one half: on few pairs it is mostly chance."]
    if len(users) > MOST_USERS:
        more = len(users) - MOST_USERS
        notes.append(f"{more:,} more users: --format json has every user.")
    columns = ["user", "pairs", *(", ".join(short.cells(view)) for view in views)]
    title = f"{benchmark}: accuracy by user{' lent' if lent else ''}, {len(users):,} users"
    return Table(title, columns, rows, [*notes, *legend(short)])


def _by_group(benchmark: str, by: str, views: Sequence[SubgroupReport]) -> Table:
    short = short_names(view.scorer for view in views)
    groups = [group for view in views for group in view.groups]
    rows = [
        [
            *short.cells(view),
            group.name,
            figure(group.accuracy),
            f"{group.n_pairs:,}",
            f"{group.n_users:,}" + "*" * group.under_10_users,
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
    notes += without_interval((group.name, group.accuracy.note) for group in groups)
    if any(group.under_10_users for group in groups):
        notes.append(
            "*: under 10 users; the interval is unreliable, and no gap counts the subgroup."
        )
    if views[0].n_unlabelled:
        notes.append(f"{views[0].n_unlabelled:,} pairs name no {by}; they are in no subgroup.")
    group, figures = by.removeprefix("trait:"), ("accuracy [95 %]", "pairs", "users", "worst tenth")
    breaks = breaks_between(row[:2] for row in rows)
    columns = [*short.columns, group, *figures]
    return Table(f"{benchmark}: accuracy by {by}", columns, rows, notes, 3, breaks)


def _by_run(benchmark: str, by: str, views: Sequence[SubgroupReport]) -> Table:
    short = short_names(view.scorer for view in views)
    harmed = any(view.users_harmed is not None for view in views)
    columns: dict[str, Callable[[SubgroupReport], str]] = {
        **short.columns,
        f"largest gap by {by}": lambda view: _between(view.largest_gap),
        "gap [95 %]": lambda view: (
            figure(view.largest_gap, signed=True) if view.largest_gap else NONE
        ),
        "p (Holm)": lambda view: p_value(view.largest_gap.p_holm if view.largest_gap else None),
        "worst tenth": lambda view: " / ".join(
            plain((view.worst_decile or {}).get(kind)) for kind in ("raw", "shrunken")
        ),
    }
    if harmed:
        columns["harmed [95 %]"] = lambda view: figure(view.users_harmed)
        columns["users"] = lambda view: f"{view.users_harmed.n:,}" if view.users_harmed else NONE
    notes = [*_notes(views, harmed), *legend(short)]
    return Table.of(f"{benchmark}: gaps by {by}, and users", views, columns, notes, 3)


def _between(gap: SubgroupGap | None) -> str:
    return NONE if gap is None else f"{gap.a} − {gap.b}"


def _notes(views: Sequence[SubgroupReport], harmed: bool) -> Iterator[str]:
    gaps = [view.largest_gap for view in views if view.largest_gap is not None]
    if gaps:
        yield (
            "gap: the largest between subgroups of 10 users or more. p is Holm-corrected over all "
            f"such gaps of a run ({max(gap.n_tested for gap in gaps)})."
        )
        yield from without_interval((_between(gap), gap.note) for gap in gaps)
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


def kind_tables(parts: Sequence[IdentityParts]) -> list[Table]:
    """Return, per benchmark, what of each identity gain knows the person, and what the kind."""
    tables, short = [], short_names(each.scorer for each in parts)
    columns: dict[str, Callable[[IdentityParts], str]] = {
        **short.columns,
        "same": lambda each: each.same,
        "identity gain [95 %]": lambda each: figure(each, signed=True),
        "individual [95 %]": lambda each: figure(each.individual, signed=True),
        "kind [95 %]": lambda each: figure(each.of_kind, signed=True),
        "stereotype share [95 %]": lambda each: figure(each.stereotype_share),
    }
    for benchmark, some in grouped(parts, lambda each: each.benchmark).items():
        notes = [KINDS, *without_interval((short.place(each), each.note) for each in some)]
        out = [(short.place(each), each.n_left_out) for each in some if each.n_left_out]
        notes += [f"{place}: {n:,} rows are left out." for place, n in out] + legend(short)
        tables.append(Table.of(f"{benchmark}: the person or the kind", some, columns, notes, 3))
    return tables


def rating_tables(found: Sequence[RatingReport]) -> list[Table]:
    """Return one table per benchmark."""
    by_benchmark = grouped(found, lambda report: report.benchmark)
    return [_rating_table(benchmark, reports) for benchmark, reports in by_benchmark.items()]


def _rating_table(benchmark: str, reports: Sequence[RatingReport]) -> Table:
    short = short_names(report.scorer for report in reports)
    columns: dict[str, Callable[[RatingReport], str]] = {
        **short.columns,
        "Spearman [95 %]": lambda report: figure(report.spearman),
        "Kendall τ-b [95 %]": lambda report: figure(report.kendall),
        "rating error [95 %]": lambda report: figure(report.rating_error),
        **{
            f"reduction over {baseline.name} [95 %]": partial(_reduction, k)
            for k, baseline in enumerate(reports[0].baselines)
        },
        "p (Holm)": lambda report: " / ".join(p_value(b.p_holm) for b in report.baselines),
    }
    most = max(reports, key=lambda report: report.n_ratings)
    title = f"{benchmark}: {most.n_ratings:,} ratings of {most.n_users:,} users"
    notes = [*_rating_notes(most, short), *without_interval(_rating_reasons(reports, short))]
    notes += _ratings_left_out(reports, short)
    return Table.of(title, reports, columns, notes, 2, parted=1)


def _reduction(k: int, report: RatingReport) -> str:
    return figure(report.baselines[k].error_reduction, signed=True)


def _rating_notes(most: RatingReport, short: ShortNames) -> Iterator[str]:
    yield (
        "Means over users; intervals: jackknife by user, and by question where users share "
        "questions (by response within one question). Ratings are mapped to [0, 1]."
    )
    yield (
        "rating error: |predicted − given|, predicted from the user's other ratings by isotonic "
        "regression on the scores. reduction: the baseline's error − the scorer's. p is "
        "Holm-corrected over this table, oracles excluded."
    )
    errors = ", ".join(f"{b.name} {figure(b.rating_error)}" for b in most.baselines)
    yield f"Errors of the baselines: {errors}."
    if most.scale is not None:
        low, high = most.scale
        yield f"Rows without rating_scale: {low:g} to {high:g}, the range of what was given."
    if most.n_unrated:
        yield f"{most.n_unrated:,} pairs without a rating left out."
    if most.n_undecided:
        yield (
            f"{most.n_undecided:,} undecided rows left out: not rated, left out by days, --limit, "
            "--mirrors or past choices, or not scored for ratings (rate_undecided=True)."
        )
    yield from legend(short)


def _rating_reasons(
    found: Sequence[RatingReport], short: ShortNames
) -> Iterator[tuple[str, str | None]]:
    for report in found:
        where = short.place(report)
        for name in ("spearman", "kendall", "rating_error"):
            yield f"{where}, {name.replace('_', ' ')}", getattr(report, name).note
        for baseline in report.baselines:
            yield f"{where}, reduction over {baseline.name}", baseline.error_reduction.note


def _ratings_left_out(found: Sequence[RatingReport], short: ShortNames) -> Iterator[str]:
    for report in found:
        reasons = [report.note] if report.note else []
        reasons += counted(
            {
                "rated responses without a score": report.n_unscored,
                "users with under three distinct ratings: no correlation": report.n_users_too_few,
                "users with a single rating: no error": report.n_users_single,
            }
        )
        if reasons:
            yield f"{short.place(report)}: {'; '.join(reasons)}."


COST_WORDS = (
    "tax: accuracy shown nothing − accuracy, on the same rows. costs: its 95 % interval is above "
    "0. harmless: it is below {:g} (p < 0.05, one-sided). costs less: both. needed: rows that show "
    "a tax of 0 harmless 8 times of 10."
)


def cost_tables(costs: Sequence[Cost]) -> list[Table]:
    """Return a table per benchmark and context."""
    some = grouped(costs, lambda cost: (cost.benchmark, cost.context))
    shown = fitting({context: context_name(context) for _, context in some}, LONGEST_CONTEXT)
    tables = []
    for (benchmark, context), of in some.items():
        differs = shown[context] != context_name(context)
        notes = legend({context: shown[context]}) if differs else []
        tables.append(_cost_table(f"{benchmark}: what {shown[context]} costs", of, notes))
    return tables


def _cost_table(title: str, costs: Sequence[Cost], more: Sequence[str]) -> Table:
    short, notes = short_names(cost.scorer for cost in costs), [COST_WORDS.format(costs[0].margin)]
    columns: dict[str, Callable[[Cost], str]] = {
        "scorer": lambda cost: short[cost.scorer],
        "rows": lambda cost: count(cost.tax.n),
        "nothing": lambda cost: plain(cost.nothing),
        "accuracy [95 %]": lambda cost: figure(cost.shown),
        "tax [95 %]": lambda cost: figure(cost.tax, signed=True),
        "finding": lambda cost: cost.finding,
        "needed": lambda cost: count(cost.n_needed) if cost.n_needed else NONE,
    }
    if costs[0].follows:
        columns["follows [95 %]"] = lambda cost: figure(cost.follows)
        notes.append("follows: of rows right when shown nothing, the share wrong now, ties half.")
    notes += without_interval((short[cost.scorer], cost.tax.note) for cost in costs)
    return Table.of(title, costs, columns, [*notes, *legend(short), *more])
