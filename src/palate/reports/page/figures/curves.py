"""Curves of what uses give, and of how far a benchmark predicts it, drawn on axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from palate.metrics import Estimate
from palate.reports.numbers import with_interval
from palate.reports.page.figures.drawing import BLUE, INK, MARKERS, MUTED, label
from palate.reports.page.figures.plots import line_style
from palate.runs import ReportedEstimate
from palate.uses.best_of_n import Selection
from palate.validity.result import Coefficients

DASHED: Any = (0, (4, 3))
Points = Sequence[tuple[float, Estimate | ReportedEstimate]]


def best_of_lines(
    ax: Any, names: Sequence[str], selections: Sequence[Selection], ks: Sequence[int]
) -> None:
    """Draw quality of the best of k against k; hollow where k is over half of the samples.

    A triangle is where picking stops helping, as far as the fitted sizes show it.
    """
    level = selections[0].curve.random.value
    for k, (name, selection) in enumerate(zip(names, selections, strict=True)):
        points = [p for p in selection.curve.points if p.best.value is not None]
        _line(ax, k, name, [(p.k, p.best) for p in points], [p.reliable for p in points])
        fit = selection.over_optimisation
        if fit is None or fit.peak != "within" or fit.peak_gain is None or level is None:
            continue
        ax.plot(
            fit.peak_k,
            level + fit.peak_gain,
            color=line_style(k)["color"],
            marker="v",
            ms=8,
            mfc="none",
        )
    best = [p for p in selections[0].curve.points if p.oracle.value is not None]
    ax.plot(
        [p.k for p in best],
        [p.oracle.value for p in best],
        color=INK,
        lw=1.2,
        ls=":",
        marker="_",
        label="the best possible",
    )
    if level is not None:
        ax.axhline(level, color=MUTED, lw=1, ls=DASHED, label="one sample")
    ax.set_xscale("log", base=2)
    ax.set_xticks(ks, [str(k) for k in ks])
    ax.set_xlabel("answers to choose from")
    ax.set_ylabel("quality")
    ax.grid(axis="y")


def learning_lines(
    ax: Any,
    lines: Mapping[str, Sequence[tuple[int, Estimate]]],
    counts: Sequence[int],
    levels: Mapping[str, float | None],
) -> None:
    """Draw a metric against choices per user, a line per model, and levels without choices."""
    for k, (name, points) in enumerate(lines.items()):
        _line(ax, k, name, [(counts.index(shots), estimate) for shots, estimate in points])
    for k, (name, level) in enumerate(levels.items()):
        if level is not None:
            ax.axhline(level, color=MUTED, lw=1, ls=(0, (4 + 3 * k, 3)), label=label(name, 26))
    ax.set_xticks(range(len(counts)), [str(count) for count in counts])
    ax.set_xlabel("choices per user")
    ax.grid(axis="y")


def weight_lines(
    ax: Any,
    lines: Mapping[str, Sequence[ReportedEstimate]],
    weights: Sequence[str],
    unit: str,
    base: ReportedEstimate,
) -> None:
    """Draw policy accuracy against the weight of the reward, a line per scorer and context."""
    for k, (name, points) in enumerate(lines.items()):
        _line(
            ax, k, name, [(at, point) for at, point in enumerate(points) if point.value is not None]
        )
    if base.value is not None:
        ax.axhline(base.value, color=MUTED, lw=1, ls=DASHED, label="the policy alone")
    ax.set_xticks(range(len(weights)), weights)
    ax.set_xlabel(f"weight of the reward, {unit}")
    ax.set_ylabel("policy accuracy")
    ax.grid(axis="y")


def validity_dots(ax: Any, names: Sequence[str], coefficients: Coefficients, quality: str) -> None:
    """Draw each scorer's downstream quality against its value on the benchmark.

    Names stand beside the dots where a legend could not tell so many apart.
    """
    beside = len(names) > len(MARKERS)
    for k, (name, each) in enumerate(zip(names, coefficients.scorers, strict=True)):
        place = each.metric_value, each.downstream_value
        style = {"marker": "o", "ms": 5} if beside else {**line_style(k), "ms": 8}
        told = {} if beside else {"label": label(name, 26)}
        ax.plot(*place, **{**style, "color": BLUE if beside else style["color"], "ls": ""}, **told)
        if beside:
            ax.annotate(
                label(name, 26), place, fontsize=6, xytext=(3, 3), textcoords="offset points"
            )
    of, tau = coefficients.downstream, coefficients.agreements[0]
    interval = with_interval(tau.value, tau.interval.low, tau.interval.high)
    measure = label(f"{coefficients.metric} on {coefficients.benchmark}", 60)
    ax.set_xlabel(f"{measure}\nτ = {interval}, n = {tau.n}")
    ax.set_ylabel(label(f"{of.answers}, {quality}" if of.answers else quality, 32))
    ax.grid()


def kl_lines(
    ax: Any,
    lines: Mapping[str, Sequence[tuple[float, Estimate]]],
    fitted: Sequence[tuple[float, float]],
    of: str,
) -> None:
    """Draw means against the distance from the untrained policy, and a fitted curve."""
    for k, (name, points) in enumerate(lines.items()):
        known = [(at, estimate) for at, estimate in points if estimate.value is not None]
        _line(ax, k, name, known, ls="")
    if fitted:
        ax.plot(*np.array(fitted).T, color=MUTED, lw=1, ls=DASHED, label="fit")
    ax.set_xlabel("KL from the untrained policy (nats)")
    ax.set_ylabel(label(of, 32))
    ax.grid(axis="y")


def _line(
    ax: Any, k: int, name: str, points: Points, firm: Sequence[bool] = (), ls: Any = None
) -> None:
    # The k-th line, hollow where a point is not firm, and the intervals that there are.
    style = line_style(k) | ({} if ls is None else {"ls": ls})
    x, y = [at for at, _ in points], [estimate.value for _, estimate in points]
    ax.plot(x, y, label=label(name, 26), lw=1.4, ms=5, **style)
    unsure = [at for at, sure in enumerate(firm) if not sure]
    ax.plot(
        [x[at] for at in unsure],
        [y[at] for at in unsure],
        lw=0,
        ms=5,
        mfc="white",
        color=style["color"],
        marker=style["marker"],
    )
    ends = [
        (at, estimate.low, estimate.high) for at, estimate in points if estimate.low is not None
    ]
    ax.vlines(
        *(zip(*ends, strict=True) if ends else ([], [], [])),
        color=style["color"],
        lw=0.8,
        alpha=0.6,
    )
