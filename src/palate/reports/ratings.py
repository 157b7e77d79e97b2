"""Scores against users' own ratings, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from palate.reports.names import context_name, legend, short_names
from palate.reports.numbers import counted, figure, p_value, without_interval
from palate.reports.table import Table, breaks_between
from palate.runs import RatingReport


def rating_tables(found: Sequence[RatingReport]) -> list[Table]:
    """Return one table per benchmark."""
    return [
        _table(benchmark, [one for one in found if one.benchmark == benchmark])
        for benchmark in dict.fromkeys(one.benchmark for one in found)
    ]


def _table(benchmark: str, reports: Sequence[RatingReport]) -> Table:
    short = short_names(report.scorer for report in reports)
    baselines = [baseline.name for baseline in reports[0].baselines]
    columns = ["scorer", "context", "Spearman [95 %]", "Kendall τ-b [95 %]", "rating error [95 %]"]
    columns += [f"reduction over {name} [95 %]" for name in baselines] + ["p (Holm)"]
    rows = [
        [
            short[report.scorer],
            context_name(report.context, oracle=report.oracle),
            *map(figure, (report.spearman, report.kendall, report.rating_error)),
            *(figure(b.error_reduction, signed=True) for b in report.baselines),
            " / ".join(p_value(b.p_holm) for b in report.baselines),
        ]
        for report in reports
    ]
    most = max(reports, key=lambda one: one.n_ratings)
    title = f"{benchmark}: {most.n_ratings:,} ratings of {most.n_users:,} users"
    notes = [*_notes(most, short), *without_interval(_reasons(reports, short))]
    notes += _left_out(reports, short)
    breaks = breaks_between(report.scorer for report in reports)
    return Table(title, columns, rows, notes, 2, breaks)


def _notes(most: RatingReport, short: Mapping[str, str]) -> Iterator[str]:
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
    for report in found:
        where = f"{short[report.scorer]}, {context_name(report.context)}"
        reasons = [report.note] if report.note else []
        reasons += counted(
            {
                "rated responses without a score": report.n_unscored,
                "users with under three distinct ratings: no correlation": report.n_users_too_few,
                "users with a single rating: no error": report.n_users_single,
            }
        )
        if reasons:
            yield f"{where}: {'; '.join(reasons)}."
