"""Learning curves as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from palate.errors import UsageError
from palate.evaluation.learning_curve import Point
from palate.metrics import Estimate
from palate.reports.numbers import NONE, p_value, with_interval
from palate.reports.table import Table

COLUMNS = [
    "model", "users", "choices", "n users", "accuracy [95 %]", "on mirrors [95 %]",
    "minus prior, on mirrors [95 %]", "shift [95 %]", "over 0 choices [95 %]", "p",
]  # fmt: skip
ALL = "all"
NOTE = (
    "choices: drawn per user, the same users at every count but where the number of users says "
    "otherwise; outcomes are averaged over draws, intervals by user (by couple on mirrors). minus "
    "prior: how much more this user likes a response than people in general do."
)


def curve_table(benchmark: str, found: Sequence[Point]) -> Table:
    """Return one row per model, group of users and number of choices."""
    rows = [
        [
            one.model, one.group, ALL if one.choices is None else str(one.choices),
            f"{one.n_users:,}", _figure(one.accuracy), _figure(one.mirrored),
            _figure(one.particular), _figure(one.shift),
            _figure(one.gain, signed=True), p_value(one.p),
        ]
        for one in found
    ]  # fmt: skip
    ends = {k for k in range(len(found) - 1) if found[k].model != found[k + 1].model}
    return Table(f"learning curves on {benchmark}", COLUMNS, rows, [NOTE], 2, frozenset(ends))


def plot_curve(found: Sequence[Point], file: Path) -> None:
    """Draw accuracy, and accuracy on mirrors where there are any, against choices per user.

    Raises `UsageError` without matplotlib, or where the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("--plot needs pip install 'palate[plot]'") from error
    panels = {"accuracy": "accuracy, every pair"}
    if any(one.mirrored for one in found):
        panels["mirrored"] = "accuracy on mirrored couples"
    figure = Figure(figsize=(5.2 * len(panels), 4), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    models = list(dict.fromkeys(one.model for one in found))
    counts = sorted({one.choices for one in found if one.choices is not None})
    for ax, (name, title) in zip(axes, panels.items(), strict=True):
        for k, model in enumerate(models):
            line = [
                (counts.index(one.choices), getattr(one, name))
                for one in found
                if one.model == model and one.group == ALL and one.choices is not None
            ]
            line = [(x, y) for x, y in line if y is not None and y.value is not None]
            ax.plot(
                [x for x, _ in line], [y.value for _, y in line], "o-", ms=3.5, lw=1.4,
                color=f"C{k}", label=model,
            )  # fmt: skip
            ax.fill_between(
                [x for x, _ in line], [y.low for _, y in line], [y.high for _, y in line],
                color=f"C{k}", alpha=0.08, lw=0,
            )  # fmt: skip
        ax.set_xticks(range(len(counts)), [str(count) for count in counts])
        ax.set_xlabel("choices per user")
        ax.set_title(title, fontsize=10, loc="left")
        ax.spines[["top", "right"]].set_visible(False)
    if len(axes) > 1:
        axes[1].axhline(0.5, color="black", lw=0.8, ls=":")
    axes[0].legend(frameon=False, fontsize=8)
    try:
        figure.savefig(file, dpi=150, metadata={"Date": None} if file.suffix == ".svg" else None)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: cannot be written ({error})") from error


def _figure(found: Estimate | None, *, signed: bool = False) -> str:
    if found is None:
        return NONE
    return with_interval(found.value, found.low, found.high, signed=signed)
