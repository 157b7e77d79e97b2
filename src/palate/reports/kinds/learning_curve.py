"""Learning curves as tables, as a picture, and on a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palate.metrics import Estimate
from palate.reports.numbers import NONE, counted, p_value, with_interval, without_interval
from palate.reports.page.figures.curves import learning_lines
from palate.reports.page.names import Names
from palate.reports.page.parts import MOST_LINES, Picture, Text
from palate.reports.pictures import panels, save
from palate.reports.table import Table, breaks_between
from palate.uses.learning_curve import LearningCurve, Point, Shots

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
    notes = [NOTE, *without_interval(_reasons(curve)), *_left_out(curve)]
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


def _reasons(curve: LearningCurve) -> Iterator[tuple[str, str | None]]:
    for point in curve.points:
        for name in ("accuracy", MIRRORED, RESIDUAL, "concordance", GAIN):
            estimate = getattr(point, name)
            if estimate is not None:
                yield f"{point.model}, {point.group}, {name}", estimate.note


def plot(curve: LearningCurve, file: Path) -> None:
    """Draw accuracy, and accuracy on mirrors where there are any, against choices per user.

    Raises `UsageError` without matplotlib, or where the file cannot be written.
    """
    everybody = [one for one in curve.points if one.group == "all"]
    shown = {"accuracy": "accuracy, every pair"}
    if any(one.mirrored_accuracy for one in everybody):
        shown |= {MIRRORED: "on mirrored couples", RESIDUAL: "residual accuracy"}
    figure, (axes,) = panels(1, len(shown), (4.6, 4.2))
    models = list(dict.fromkeys(one.model for one in everybody if one.shots is not None))
    counts = [k for k in dict.fromkeys(one.shots for one in everybody) if isinstance(k, int)]
    for ax, (name, title) in zip(axes, shown.items(), strict=True):
        for k, model in enumerate(models):
            line = [
                (counts.index(one.shots), getattr(one, name))
                for one in everybody
                if one.model == model and isinstance(one.shots, int)
            ]
            line = [(x, y) for x, y in line if y is not None and y.value is not None]
            style: dict[str, Any] = {"color": f"C{k % 10}", "ls": "-" if k < 10 else "--"}
            ax.plot(
                [x for x, _ in line],
                [y.value for _, y in line],
                marker="o",
                ms=3,
                lw=1.3,
                label=model,
                **style,
            )
            known = [(x, y) for x, y in line if y.low is not None]
            ax.fill_between(
                [x for x, _ in known],
                [y.low for _, y in known],
                [y.high for _, y in known],
                color=style["color"],
                alpha=0.06,
                lw=0,
            )
        if name == "accuracy":
            for k, one in enumerate(one for one in everybody if one.shots is None):
                ax.axhline(
                    one.accuracy.value,
                    color="black",
                    lw=0.9,
                    ls=(0, (1 + 3 * k, 2)),
                    label=one.model,
                )
        else:
            ax.axhline(0.5, color="black", lw=0.8, ls=":")
        ax.set_xticks(range(len(counts)), [str(count) for count in counts])
        ax.set_xlabel("choices per user")
        ax.set_title(title, fontsize=10, loc="left")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    save(figure, file)


def _table(title: str, curve: LearningCurve, name: str, notes: list[str]) -> Table:
    counts: list[Shots] = [k for k in dict.fromkeys(p.shots for p in curve.points) if k is not None]
    by_row: dict[tuple[str, str], dict[Shots | None, Point]] = {}
    for one in curve.points:
        by_row.setdefault((one.model, one.group), {})[one.shots] = one
    rows = []
    for (model, group), points in by_row.items():
        cells = [_cell(points[k], name) if k in points else NONE for k in counts]
        if None in points:
            cells[0] = _cell(points[None], name)
        if all(text == NONE for text in cells):
            continue
        most = max(points.values(), key=lambda one: one.n_users)
        rows.append([model, group, f"{most.n_users:,}", *cells])
    heads = [f"{k} choices" if k == counts[0] else str(k) for k in counts]
    columns = ["model", "users", "n", *heads]
    return Table(title, columns, rows, notes, 2, breaks_between(row[0] for row in rows))


def _left_out(curve: LearningCurve) -> list[str]:
    users = {
        one.shots: one.n_users
        for one in curve.points
        if one.group == "all" and one.shots not in (None, "all")
    }
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
    text = with_interval(found.value, found.low, found.high, signed=name == GAIN)
    return f"{text} {p_value(point.p_gain_over_reference_holm)}" if name == GAIN else text


def parts(result: LearningCurve, names: Names, number: int) -> Iterator[object]:
    """Yield a drawing a metric, each with its table."""
    yield Text("What more choices of a user are worth", "h3")
    everybody = [point for point in result.points if point.group == "all"]
    counts = sorted({point.shots for point in everybody if isinstance(point.shots, int)})
    every = [names.table(table) for table in tables(result)]
    metrics = {"accuracy": "Accuracy", "mirrored_accuracy": "Accuracy on mirrored couples"}
    for metric, title in metrics.items():
        lines: dict[str, list[tuple[int, Estimate]]] = {}
        for point in everybody:
            estimate = getattr(point, metric)
            if isinstance(point.shots, int) and estimate is not None and estimate.value is not None:
                lines.setdefault(names.public(point.model), []).append((point.shots, estimate))
        if not lines:
            continue
        shown = [each for each in every if each.title.startswith("accuracy on")]
        table = shown[0] if shown and metric != "accuracy" else every[0]
        yield Picture(
            f"choices-{number}-{metric}",
            f"{title} against choices per user",
            "A line is a model; short vertical lines are 95 % intervals.",
            table,
            learning_lines(
                dict(list(lines.items())[:MOST_LINES]), counts, half=metric != "accuracy"
            ),
        )
