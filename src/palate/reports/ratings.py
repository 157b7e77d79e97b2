"""Scores against users' own ratings, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from palate.reports.names import context_name, legend, short_names
from palate.reports.numbers import figure, p_value, with_interval, without_interval
from palate.reports.table import Table, breaks_between
from palate.runs import RatingReport


def rating_tables(found: Sequence[RatingReport]) -> list[Table]:
    """Return one table per benchmark."""
    return [
        _table(benchmark, [one for one in found if one.benchmark == benchmark])
        for benchmark in dict.fromkeys(one.benchmark for one in found)
    ]


def _table(benchmark: str, found: Sequence[RatingReport]) -> Table:
    short = short_names(one.scorer for one in found)
    baselines = [baseline.name for baseline in found[0].baselines]
    columns = ["scorer", "context", "Spearman [95 %]", "Kendall τ-b [95 %]"]
    columns += ["rating error [95 %]"]
    columns += [f"reduction over {name} [95 %]" for name in baselines] + ["p (Holm)"]
    rows = []
    for one in found:
        reductions = [b.error_reduction for b in one.baselines]
        rows.append(
            [
                short[one.scorer],
                context_name(one.context, oracle=one.oracle),
                *map(figure, (one.spearman, one.kendall, one.rating_error)),
                *(with_interval(s.value, s.low, s.high, signed=True) for s in reductions),
                " / ".join(p_value(b.p_holm) for b in one.baselines),
            ]
        )
    most = max(found, key=lambda one: one.n_ratings)
    title = f"{benchmark}: {most.n_ratings:,} ratings of {most.n_users:,} users"
    notes = [*_notes(most, short), *without_interval(_reasons(found, short))]
    notes += _left_out(found, short)
    return Table(title, columns, rows, notes, 2, breaks_between(one.scorer for one in found))


def _notes(most: RatingReport, short: Mapping[str, str]) -> Iterator[str]:
    yield (
        "Means over users; intervals: jackknife by user, and by question where users share "
        "questions (by response within one question). Ratings are mapped to [0, 1]."
    )
    yield (
        "rating error: |predicted − given|, predicted from the user's other ratings by isotonic "
        "regression on the scores; reduction: the baseline's error − the scorer's; p: Holm over "
        "all of the table, oracles apart."
    )
    errors = ", ".join(f"{b.name} {figure(b.rating_error)}" for b in most.baselines)
    yield f"Errors of the baselines: {errors}."
    if most.scale is not None:
        low, high = most.scale
        yield f"Rows without rating_scale: {low:g} to {high:g}, the range of what was given."
    if most.n_unrated:
        yield f"{most.n_unrated:,} pairs without a rating left out."
    yield from legend(short)


def _reasons(
    found: Sequence[RatingReport], short: Mapping[str, str]
) -> Iterator[tuple[str, str | None]]:
    for one in found:
        where = f"{short[one.scorer]}, {context_name(one.context)}"
        for name in ("spearman", "kendall", "rating_error"):
            yield f"{where}, {name.replace('_', ' ')}", getattr(one, name).note
        for baseline in one.baselines:
            yield f"{where}, reduction over {baseline.name}", baseline.error_reduction.note


def _left_out(found: Sequence[RatingReport], short: Mapping[str, str]) -> Iterator[str]:
    for one in found:
        where = f"{short[one.scorer]}, {context_name(one.context)}"
        said = []
        if one.note:
            said.append(one.note)
        if one.n_unscored:
            said.append(f"{one.n_unscored:,} rated responses without a score")
        if one.n_users_too_few:
            said.append(
                f"{one.n_users_too_few:,} users with under three distinct ratings: no correlation"
            )
        if one.n_users_single:
            said.append(f"{one.n_users_single:,} users with a single rating: no error")
        if said:
            yield f"{where}: {'; '.join(said)}."
