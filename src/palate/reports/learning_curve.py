"""Learning curves as tables, and as pictures and tables of a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from palate.metrics import Estimate
from palate.records.arguments import grouped
from palate.reports.names import Names
from palate.reports.numbers import NONE, counted, figure, p_value, without_interval
from palate.reports.parts import MOST_LINES, Text, label, picture
from palate.reports.plots import LEVEL_LINE, draw_line
from palate.reports.table import Table, breaks_between
from palate.uses.learning_curve_points import LearningCurve, Point, Shots

MIRRORED, RESIDUAL, GAIN = "mirrored_accuracy", "residual_accuracy", "gain_over_reference"
NOTE = (
    "choices: drawn per user; the same users at every count, but where a row says that fewer have "
    "so many. Outcomes are averaged over draws. Intervals: jackknife by user (of couples: by both) "
    "and by question where users share questions (by response within one question)."
)
LESS_PRIOR = (
    "The score minus the prior's: how much more this user likes a response than people in general."
)
BLIND = "A model that ignores the user gets exactly 0.500."
PAIRED = (
    "Paired over the same pairs; p of the interval's t, or of sign flips by user where no question "
    "is shared; Holm-corrected over a column."
)


def tables(curve: LearningCurve) -> list[Table]:
    """Return a table per figure: one row per model and group of users, a column per count."""
    reasons = (
        (f"{point.model}, {point.group}, {name}", estimate.note)
        for point in curve.points
        for name in ("accuracy", MIRRORED, RESIDUAL, "concordance", GAIN)
        if (estimate := getattr(point, name)) is not None
    )
    notes = [NOTE, *without_interval(reasons), *_left_out(curve)]
    tables = [_table(f"{curve.summary.benchmark}: accuracy, every pair", curve, "accuracy", notes)]
    if any(one.gain_over_reference for one in curve.points):
        tables.append(_table("gain over bradley-terry, p, every pair", curve, GAIN, [PAIRED]))
    if any(one.mirrored_accuracy for one in curve.points):
        tables += [
            _table("accuracy on mirrored couples", curve, MIRRORED, [BLIND]),
            _table("residual accuracy on mirrored couples", curve, RESIDUAL, [LESS_PRIOR]),
            _table("concordance", curve, "concordance", []),
        ]
    return tables


def _table(title: str, curve: LearningCurve, name: str, notes: list[str]) -> Table:
    counts: list[Shots] = [k for k in dict.fromkeys(p.shots for p in curve.points) if k is not None]
    rows = []
    for (model, group), some in grouped(curve.points, lambda p: (p.model, p.group)).items():
        points = {point.shots: point for point in some}
        cells = [_cell(points[k], name) if k in points else NONE for k in counts]
        if None in points:
            cells[0] = _cell(points[None], name)
        if all(text == NONE for text in cells):
            continue
        rows.append([model, group, f"{max(point.n_users for point in some):,}", *cells])
    heads = [f"{k} choices" if k == counts[0] else str(k) for k in counts]
    columns = ["model", "users", "n", *heads]
    return Table(title, columns, rows, notes, 2, breaks_between(row[0] for row in rows))


def _left_out(curve: LearningCurve) -> list[str]:
    everybody = [point for point in curve.points if point.group == "all"]
    users = {it.shots: it.n_users for it in everybody if it.shots not in (None, "all")}
    most = max(users.values(), default=0)
    notes = [f"{n:,} users have {shots} choices." for shots, n in users.items() if n < most]
    summary = curve.summary
    left_out = {"pairs": summary.pairs_left_out, "earlier choices": summary.choices_left_out}
    return notes + [
        f"{each} left out: a response is too long for a model." for each in counted(left_out)
    ]


def _cell(point: Point, name: str) -> str:
    found: Estimate | None = getattr(point, name)
    if found is None or (name == RESIDUAL and point.shots == 0):
        return NONE
    text = figure(found, signed=name == GAIN)
    return f"{text} {p_value(point.p_gain_over_reference_holm)}" if name == GAIN else text


def parts(result: LearningCurve, names: Names, number: int) -> Iterator[object]:
    """Yield a drawing a metric, each with its table."""
    yield Text("What more choices of a user are worth", "h3")
    everybody = [point for point in result.points if point.group == "all"]
    counts = sorted({point.shots for point in everybody if isinstance(point.shots, int)})
    every = [names.table(table) for table in tables(result)]
    metrics = {
        "accuracy": "Accuracy",
        MIRRORED: "Accuracy on mirrored couples",
        RESIDUAL: "Residual accuracy on mirrored couples",
    }
    baselines = {names.public(it.model): it.accuracy.value for it in everybody if it.shots is None}
    for metric, title in metrics.items():
        lines: dict[str, list[tuple[int, Estimate]]] = {}
        for point in everybody:
            estimate = getattr(point, metric)
            if isinstance(point.shots, int) and estimate is not None and estimate.value is not None:
                place = counts.index(point.shots), estimate
                lines.setdefault(names.public(point.model), []).append(place)
        if not lines:
            continue
        table = next((each for each in every[1:] if each.title.startswith(title.lower())), every[0])
        yield picture(
            f"choices-{number}-{metric}",
            f"{title} against choices per user",
            "A line is a model; short vertical lines are 95 % intervals.",
            table,
            partial(
                learning_lines,
                lines=dict(list(lines.items())[:MOST_LINES]),
                counts=counts,
                levels=baselines if metric == "accuracy" else {"ignores the user": 0.5},
            ),
        )


def learning_lines(
    ax: Any,
    lines: Mapping[str, Sequence[tuple[int, Estimate]]],
    counts: Sequence[int],
    levels: Mapping[str, float | None],
) -> None:
    """Draw a metric against choices per user, a line per model, and levels without choices."""
    for k, (name, points) in enumerate(lines.items()):
        draw_line(ax, k, name, points)
    for k, (name, level) in enumerate(levels.items()):
        if level is not None:
            style = LEVEL_LINE | {"ls": (0, (4 + 3 * k, 3))}
            ax.axhline(level, label=label(name, 26), **style)
    ax.set_xticks(range(len(counts)), [str(count) for count in counts])
    ax.set_xlabel("choices per user")
    ax.grid(axis="y")
