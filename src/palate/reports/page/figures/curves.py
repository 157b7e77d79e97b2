"""What users get with n answers, and what more choices are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from palate.metrics import Estimate
from palate.reports.page.figures.drawing import INK, MUTED, label, look
from palate.reports.page.figures.plots import WIDTH, line_style
from palate.reports.pictures import panels
from palate.runs import ReportedEstimate
from palate.uses.best_of_n import Selection
from palate.validity.result import Coefficients


@look()
def best_of_lines(names: Sequence[str], selections: Sequence[Selection], ks: Sequence[int]) -> Any:
    """Draw quality of the best of k against k; hollow where k is over half of the samples."""
    figure, ((ax,),) = panels(1, 1, (WIDTH, 3.6))
    for k, (name, selection) in enumerate(zip(names, selections, strict=True)):
        points = [(p.k, p.best) for p in selection.curve.points if p.best.value is not None]
        _line(ax, k, name, points)
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
    level = selections[0].curve.random.value
    if level is not None:
        ax.axhline(level, color=MUTED, lw=1, ls=(0, (4, 3)), label="one sample")
    ax.set_xscale("log", base=2)
    ax.set_xticks(ks, [str(k) for k in ks])
    ax.set_xlabel("answers to choose from")
    ax.set_ylabel("quality")
    ax.grid(axis="y")
    figure.legend(loc="outside right upper", fontsize=8.5)
    return figure


@look()
def learning_lines(
    lines: Mapping[str, Sequence[tuple[int, Estimate]]], counts: Sequence[int], *, half: bool
) -> Any:
    """Draw a metric against choices per user, a line per model."""
    figure, ((ax,),) = panels(1, 1, (WIDTH, 3.6))
    for k, (name, points) in enumerate(lines.items()):
        _line(ax, k, name, [(counts.index(shots), estimate) for shots, estimate in points])
    if half:
        ax.axhline(0.5, color=MUTED, lw=1, ls=(0, (4, 3)), label="ignores the user")
    ax.set_xticks(range(len(counts)), [str(count) for count in counts])
    ax.set_xlabel("choices per user")
    ax.grid(axis="y")
    figure.legend(loc="outside right upper", fontsize=8.5)
    return figure


@look()
def weight_lines(
    lines: Mapping[str, Sequence[ReportedEstimate]],
    weights: Sequence[str],
    unit: str,
    base: ReportedEstimate,
) -> Any:
    """Draw policy accuracy against the weight of the reward, a line per scorer and context."""
    figure, ((ax,),) = panels(1, 1, (WIDTH, 3.6))
    for k, (name, points) in enumerate(lines.items()):
        _line(
            ax, k, name, [(at, point) for at, point in enumerate(points) if point.value is not None]
        )
    if base.value is not None:
        ax.axhline(base.value, color=MUTED, lw=1, ls=(0, (4, 3)), label="the policy alone")
    ax.set_xticks(range(len(weights)), weights)
    ax.set_xlabel(f"weight of the reward, {unit}")
    ax.set_ylabel("policy accuracy")
    ax.grid(axis="y")
    figure.legend(loc="outside right upper", fontsize=8.5)
    return figure


@look()
def validity_dots(names: Sequence[str], coefficients: Coefficients, quality: str) -> Any:
    """Draw each scorer's downstream quality against its value on the benchmark."""
    figure, ((ax,),) = panels(1, 1, (WIDTH, 3.6))
    for k, (name, each) in enumerate(zip(names, coefficients.scorers, strict=True)):
        style = {**line_style(k), "ls": ""}
        ax.plot(each.metric_value, each.downstream_value, ms=8, label=label(name, 26), **style)
    of = coefficients.downstream
    ax.set_xlabel(label(f"{coefficients.metric} on {coefficients.benchmark}", 60))
    ax.set_ylabel(label(quality if of.k is None else f"best of {of.k}, {quality}", 32))
    ax.grid()
    figure.legend(loc="outside right upper", fontsize=8.5)
    return figure


def _line(
    ax: Any, k: int, name: str, points: Sequence[tuple[int, Estimate | ReportedEstimate]]
) -> None:
    # The k-th line, and the intervals of the points that have one.
    style = line_style(k)
    x, y = [at for at, _ in points], [estimate.value for _, estimate in points]
    ax.plot(x, y, label=label(name, 26), lw=1.4, ms=5, **style)
    ends = [
        (at, estimate.low, estimate.high) for at, estimate in points if estimate.low is not None
    ]
    ax.vlines(
        *(zip(*ends, strict=True) if ends else ([], [], [])),
        color=style["color"],
        lw=0.8,
        alpha=0.6,
    )
