"""Drawings of scorers, and the lines that drawings of uses share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate.metrics import Estimate
from palate.reports.parts import (
    BLUE,
    COLOURS,
    DASHES,
    GREEN,
    INK,
    MARKERS,
    MUTED,
    PAPER,
    RULE,
    VERMILION,
    WIDTH,
    label,
    look,
    panels,
)
from palate.runs import ReportedEstimate

LEVEL_LINE: dict[str, Any] = {"color": MUTED, "lw": 1, "ls": (0, (4, 3))}
"""A line across a drawing, to compare with."""
Points = Sequence[tuple[float, Estimate | ReportedEstimate]]

SIZES = 5


@dataclass(frozen=True)
class Mark:
    """One kind of dot: its word, shape and colour."""

    word: str
    marker: str
    colour: str
    filled: bool


NOTHING = Mark("nothing shown", "o", MUTED, filled=False)
STRANGER = Mark("a stranger’s", "D", VERMILION, filled=False)
OWN = Mark("the user’s own", "o", BLUE, filled=True)
GOLD = Mark("gold (upper bound)", "^", GREEN, filled=True)
MARKS = (NOTHING, STRANGER, OWN, GOLD)


@look()
def dumbbells(
    rows: Sequence[tuple[str, Mapping[Mark, ReportedEstimate]]], *, ignores_the_user: float | None
) -> Any:
    """Draw each scorer's accuracies on one axis, and the interval of its own."""
    everything = [e.value for _, f in rows for e in f.values() if e.value is not None]
    near = 0.02 * (max(everything, default=1) - min(everything, default=0)) + 1e-6
    places = [_apart(figures, near) for _, figures in rows]
    figure, ((ax,),) = panels(1, 1, (WIDTH, 0.47 * len(rows) + 0.95))
    for level, (_, figures) in enumerate(rows):
        values = [each.value for each in figures.values() if each.value is not None]
        if values:
            ax.plot([min(values), max(values)], [level, level], color=RULE, lw=3, zorder=1)
        estimate = figures.get(OWN)
        if estimate is not None and estimate.low is not None:
            ax.plot([estimate.low, estimate.high], [level, level], color=BLUE, lw=1.3, zorder=2)
    for mark in MARKS:
        some = [
            (figures[mark].value, at + places[at][mark])
            for at, (_, figures) in enumerate(rows)
            if mark in figures and figures[mark].value is not None
        ]
        if some:
            style = _style(mark) | {"ms": 7 if mark.filled else 6.2}
            ax.plot(*zip(*some, strict=True), ls="", label=mark.word, zorder=3, **style)
    if ignores_the_user is not None:
        _level(ax, ignores_the_user, label="ignores the user")
    _rows_axis(ax, [name for name, _ in rows])
    ax.set_xlabel("accuracy")
    figure.legend(
        loc="outside upper left", ncols=5, fontsize=9, handletextpad=0.3, columnspacing=1.4
    )
    return figure


@look()
def subset_panels(
    rows: Mapping[str, Sequence[tuple[str, ReportedEstimate]]], level: float | None
) -> Any:
    """Draw a panel per subset, all on one axis: each scorer's accuracy with its interval."""
    names = [name for name, _ in next(iter(rows.values()))]
    figure, axes = _grid(len(rows), 0.3 * len(names) + 0.8)
    for ax, (subset, figures) in zip(axes, rows.items(), strict=True):
        _dots(ax, figures, 6)
        if level is not None:
            _level(ax, level)
        ax.set_title(label(subset.replace("_", " "), 30))
        _rows_axis(ax, names)
    return figure


@look()
def user_dots(scorers: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]) -> Any:
    """Draw, per scorer, users sorted by accuracy; the size of a dot is how many pairs they have."""
    figure, axes = _grid(len(scorers), 2.3)
    for ax, (name, (means, counts)) in zip(axes, scorers.items(), strict=True):
        order = np.argsort(means, kind="stable")
        places = np.arange(1, len(order) + 1)
        # Few sizes, so that each is one mark that many dots share.
        shares = np.ceil(SIZES * np.sqrt(counts[order] / counts.max()))
        for size in np.unique(shares):
            of = shares == size
            style = {"marker": "o", "color": BLUE, "alpha": 0.75, "mew": 0}
            ax.plot(places[of], means[order][of], ls="", ms=1.4 + 0.8 * size, **style)
        ax.axhline(0.5, zorder=0, **LEVEL_LINE)
        ax.set_title(label(name, 30))
        ax.set_ylim(-0.04, 1.04)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.grid(axis="y")
    figure.supxlabel("users, the worst served first", fontsize=10)
    figure.supylabel("accuracy", fontsize=10)
    return figure


@look()
def rank_lines(
    scorers: Sequence[tuple[str, ReportedEstimate]],
    joined: Sequence[tuple[int, int]],
    baselines: Sequence[tuple[str, float]],
) -> Any:
    """Draw scorers by accuracy; a bar on the right joins those that no test tells apart."""
    figure, ((ax,),) = panels(1, 1, (WIDTH, 0.34 * len(scorers) + 0.95))
    _dots(ax, scorers, 7)
    for k, (name, value) in enumerate(baselines):
        style = {"color": VERMILION, "lw": 1.2, "ls": DASHES[1 + k % 3]}
        ax.axvline(value, label=label(name), zorder=0, **style)
    for k, (first, last) in enumerate(joined):
        x, on_axis = 1.02 + 0.018 * (k % 8), {"transform": ax.get_yaxis_transform()}
        style = {"color": INK, "lw": 2.6, "clip_on": False, "solid_capstyle": "round"}
        ax.plot([x, x], [first - 0.2, last + 0.2], **style, **on_axis)
    _rows_axis(ax, [name for name, _ in scorers])
    ax.set_xlabel("accuracy")
    if baselines:
        figure.legend(loc="outside upper left", ncols=3, fontsize=9)
    return figure


@look()
def ceiling_lines(
    scorers: Sequence[tuple[str, float]],
    blind: tuple[float, float],
    personal: tuple[float, float] | None,
) -> Any:
    """Draw a bar from ½ over the blind ceiling to the personal one, and scorers below it."""
    figure, ((ax,),) = panels(1, 1, (WIDTH, 0.34 * (len(scorers) + 1) + 0.95))
    start = 0.5
    for name, ends, colour in (("without the user", blind, MUTED), ("with", personal, BLUE)):
        if ends is not None:
            sure, most = max(start, ends[0]), max(start, ends[1])
            ax.barh(0, sure - start, left=start, height=0.5, color=colour, label=name)
            ax.barh(0, most - sure, left=sure, height=0.5, color=colour, alpha=0.4)
            ax.axvspan(*ends, color=colour, alpha=0.12, lw=0, zorder=0)
            start = most
    for at, (_, value) in enumerate(scorers, 1):
        ax.plot(value, at, ls="", ms=7, **_style(OWN))
    _rows_axis(ax, ["ceilings", *(name for name, _ in scorers)])
    ax.set_xlabel("accuracy")
    figure.legend(loc="outside upper left", ncols=2, fontsize=9)
    return figure


@look()
def calibration_lines(curves: Mapping[str, Sequence[tuple[float, float]]]) -> Any:
    """Draw the share of wins against the probability that a scorer gave."""
    figure, ((ax,),) = panels(1, 1, (WIDTH * 0.72, 3.4))
    ax.plot([0, 1], [0, 1], label="calibrated", **LEVEL_LINE)
    for k, (name, points) in enumerate(curves.items()):
        ax.plot(*zip(*points, strict=True), label=label(name), lw=1.4, ms=5, **line_style(k))
    ends = -0.02, 1.02
    ax.set(xlabel="probability given", ylabel="share of wins", xlim=ends, ylim=ends)
    ax.grid()
    figure.legend(loc="outside right upper", fontsize=9)
    return figure


def line_style(k: int) -> dict[str, Any]:
    """Return colour, dash and marker of the k-th line: no two of the first 32 are alike.

    >>> line_style(0)["marker"], line_style(1)["marker"]
    ('o', 'D')
    """
    return {"color": COLOURS[k % 4], "ls": DASHES[k // 4 % 4], "marker": MARKERS[k % 8]}


def _grid(n: int, height: float) -> tuple[Any, list[Any]]:
    # So many panels of one scale, at most three in a row; what is left of the last row is hidden.
    columns = min(3, n)
    lines = -(-n // columns)
    size = WIDTH / columns, height
    figure, axes = panels(lines, columns, size, sharex=True, sharey=True)
    for ax in axes.flat[n:]:
        ax.set_visible(False)
    return figure, list(axes.flat[:n])


def _dots(ax: Any, figures: Sequence[tuple[str, ReportedEstimate]], size: int) -> None:
    for at, (_, estimate) in enumerate(figures):
        if estimate.low is not None:
            ax.plot([estimate.low, estimate.high], [at, at], color=BLUE, lw=1.3)
        if estimate.value is not None:
            ax.plot(estimate.value, at, ls="", ms=size, **_style(OWN))


def _level(ax: Any, level: float, **more: Any) -> None:
    ax.axvline(level, zorder=0, **LEVEL_LINE, **more)
    low, high = ax.get_xlim()
    ax.set_xlim(min(low, level - 0.08), max(high, level + 0.08))


def _apart(figures: Mapping[Mark, ReportedEstimate], near: float) -> dict[Mark, float]:
    # Dots that would hide each other stand estimate above the other.
    known = [(of.value, mark) for mark, of in figures.items() if of.value is not None]
    places: dict[Mark, float] = {}
    group: list[tuple[float, Mark]] = []
    for value, mark in [*sorted(known, key=lambda of: of[0]), (np.inf, OWN)]:
        if group and value - group[-1][0] > near:
            for k, (_, each) in enumerate(group):
                places[each] = 0.21 * (k - (len(group) - 1) / 2)
            group = []
        group.append((value, mark))
    return places


def _style(mark: Mark) -> dict[str, Any]:
    colour, fill = mark.colour, mark.colour if mark.filled else PAPER
    return {"marker": mark.marker, "color": colour, "mfc": fill, "mec": colour, "mew": 1.6}


def _rows_axis(ax: Any, names: Sequence[str]) -> None:
    ax.set_yticks(range(len(names)), [label(name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x")


def draw_line(
    ax: Any, k: int, name: str, points: Points, firm: Sequence[bool] = (), ls: Any = None
) -> None:
    """Draw the k-th line, hollow where a point is not firm, and the intervals that there are."""
    style = line_style(k) | ({} if ls is None else {"ls": ls})
    x, y = [at for at, _ in points], [estimate.value for _, estimate in points]
    ax.plot(x, y, label=label(name, 26), lw=1.4, ms=5, **style)
    unsure = [at for at, sure in enumerate(firm) if not sure]
    hollow = {"mfc": "white", "color": style["color"], "marker": style["marker"]}
    ax.plot([x[at] for at in unsure], [y[at] for at in unsure], lw=0, ms=5, **hollow)
    ends = [(at, of.low, of.high) for at, of in points if of.low is not None]
    lines = zip(*ends, strict=True) if ends else ([], [], [])
    ax.vlines(*lines, color=style["color"], lw=0.8, alpha=0.6)
