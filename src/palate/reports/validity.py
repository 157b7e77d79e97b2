"""Validity as tables, pictures and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scipy.stats import rankdata

from palate.metrics.ranks import Reliability
from palate.reports.names import context_name, short_names
from palate.reports.numbers import NONE, p_value, plain, with_interval
from palate.reports.pictures import panels, save
from palate.reports.table import Table
from palate.validity import Coefficients, Difference, Validity
from palate.validity.coefficients import FEW
from palate.validity.figures import Contestant

NOTE = (
    "τ: Kendall's τ-b [95 % for other scorers drawn like these]. p: against random rankings of "
    "these scorers, all n! of them up to 8; after the stroke Holm, over the metrics of this table. "
    "reliability: share of the variance between scorers that is no noise of users and questions, "
    "of the benchmark's metric and of the picks [95 %]; noise ceiling: √ of their product, the "
    "most that noise leaves to find."
)
COMPARED_NOTE = (
    "p: ranks of a scorer exchanged between the two, all 2ⁿ ways up to 12 scorers whose ranks "
    "differ; after the stroke Holm, over this table. These comparisons were named beforehand."
)


def validity_tables(found: Validity) -> list[Table]:
    """Return a table per measure of quality, and one of the metrics that are compared."""
    tables = []
    for what in dict.fromkeys(_what(one) for one in found.coefficients):
        some = [one for one in found.coefficients if _what(one) == what]
        notes = [
            NOTE,
            *_warnings(some),
            *_held(some),
            *_unmoved(some),
            *(f"{few}: too few." for few in found.too_few),
            *_left_out(found),
        ]
        columns = ["benchmark", "metric", "n", "τ [95 %]", "p / Holm", "reliability",
                   "of the picks", "noise ceiling"]  # fmt: skip
        tables.append(Table(f"predicting {what}", columns, [_row(one) for one in some], notes, 2))
        differences = [one for one in found.differences if _below(one) == _below(some[0])]
        if differences:
            tables.append(_differences(what, differences))
    return tables


def _below(one: Coefficients | Difference) -> tuple[str, str, str, int]:
    return one.policy, one.below, one.quality, one.k


def _held(some: Sequence[Coefficients]) -> list[str]:
    said = []
    for one in some:
        if one.units < one.of:
            scorer, context = one.fewest
            said.append(
                f"{one.metric} on {one.benchmark}: over the {one.units:,} of {one.of:,} that every "
                f"contestant scored ({scorer} under {context} the fewest)."
            )
    return said


def _unmoved(some: Sequence[Coefficients]) -> list[str]:
    by: dict[tuple[Contestant, ...], list[str]] = {}
    for one in some:
        if one.unmoved:
            by.setdefault(one.unmoved, []).append(f"{one.metric} of {one.benchmark}")
    return [
        f"{', '.join(figures)}: {len(blind)} contestants that are blind to the user are left out: "
        "over couples they are at ½ in both, whatever they pick."
        for blind, figures in by.items()
    ]


def _left_out(found: Validity) -> list[str]:
    lacking = [(found.only_above, "a downstream result"), (found.only_below, "a benchmark run")]
    said = [
        f"Left out for want of {lack}: {', '.join(f'{a} under {b}' for a, b in some)}."
        for some, lack in lacking
        if some
    ]
    if found.blind:
        said.append(
            f"One contestant each, being alike under every context: {', '.join(found.blind)}."
        )
    return said


def _what(one: Coefficients) -> str:
    named = f"{one.quality} (a surrogate)" if one.surrogate else one.quality
    return f"best of {one.k} of {one.n_samples} by {one.policy} on {one.below}, {named}"


def validity_json(found: Validity) -> dict[str, Any]:
    """Return the document that `--format json` prints."""
    return {
        "schema": 1,
        "kind": "validity",
        "validity": [
            {
                **{name: value for name, value in asdict(one).items() if name not in LISTED},
                "contestants": [
                    {"scorer": scorer, "context": context, "figure": x, "downstream": y}
                    for (scorer, context), x, y in zip(
                        one.contestants, one.figures, one.downstream, strict=True
                    )
                ],
            }
            for one in found.coefficients
        ],
        "differences": [asdict(one) for one in found.differences],
        "too_few": list(found.too_few),
        "only_above": [list(one) for one in found.only_above],
        "only_below": [list(one) for one in found.only_below],
        "blind": list(found.blind),
    }


LISTED = {"contestants", "figures", "downstream"}
"""What is listed contestant by contestant."""


def plot_validity(found: Validity, file: Path) -> None:
    """Draw, per figure and quality, scatter (above) and rank slopes (below).

    Raises `UsageError` without matplotlib, or where the file cannot be written.
    """
    some = found.coefficients
    several = len({(one.policy, one.below) for one in some}) > 1
    figure, axes = panels(2, len(some), (4.4, 4.2))
    for at, one in enumerate(some):
        _scatter(axes[0][at], one, several=several)
        _slopes(axes[1][at], one)
    save(figure, file)


def _scatter(ax: Any, one: Coefficients, *, several: bool) -> None:
    tau = one.agreements[0]
    ax.scatter(one.figures, one.downstream, s=22, color="C0", zorder=3)
    for name, x, y in zip(_labels(one), one.figures, one.downstream, strict=True):
        ax.annotate(name, (x, y), fontsize=6, xytext=(3, 3), textcoords="offset points")
    ax.set_xlabel(f"{one.metric} on {one.benchmark}", fontsize=8)
    whose = f"\nby {one.policy} on {one.below}" if several else ""
    ax.set_ylabel(f"best of {one.k}, {one.quality}{whose}", fontsize=8)
    interval = with_interval(tau.value, tau.over_scorers.low, tau.over_scorers.high)
    ax.set_title(f"τ = {interval}, n = {tau.n}", fontsize=9, loc="left")
    ax.spines[["top", "right"]].set_visible(False)


def _slopes(ax: Any, one: Coefficients) -> None:
    left, right = rankdata(one.figures), rankdata(one.downstream)
    for name, a, b in zip(_labels(one), left, right, strict=True):
        ax.plot([0, 1], [a, b], color="C0" if abs(a - b) < 2 else "C3", lw=1.1, marker="o", ms=3)
        ax.annotate(name, (0, a), fontsize=6, ha="right", va="center", xytext=(-5, 0),
                    textcoords="offset points")  # fmt: skip
    ax.set_xlim(-0.9, 1.15)
    ax.set_xticks([0, 1], [one.metric, f"best of {one.k}"], fontsize=8)
    ax.set_yticks([])
    ax.spines[["top", "right", "left"]].set_visible(False)


def _labels(one: Coefficients) -> list[str]:
    names = short_names([scorer for scorer, _ in one.contestants])
    several = len({context for _, context in one.contestants}) > 1
    return [
        f"{names[scorer]} · {context_name(context)}" if several else names[scorer]
        for scorer, context in one.contestants
    ]


def _row(one: Coefficients) -> list[str]:
    tau = one.agreements[0]
    return [
        one.benchmark, one.metric, str(tau.n),
        with_interval(tau.value, tau.over_scorers.low, tau.over_scorers.high),
        f"{p_value(tau.chance.p)} / {p_value(one.p_holm[0])}",
        _reliability(one.reliability), _reliability(one.downstream_reliability),
        plain(one.noise_ceiling),
    ]  # fmt: skip


def _reliability(of: Reliability | None) -> str:
    return NONE if of is None else with_interval(of.value, of.low, of.high)


def _warnings(some: Sequence[Coefficients]) -> list[str]:
    said = []
    for n in dict.fromkeys(len(one.contestants) for one in some if len(one.contestants) < FEW):
        shown = next(one.resolution for one in some if len(one.contestants) == n)
        critical = (
            "no ranking reaches p = 0.05"
            if shown.critical_tau is None
            else f"|τ| must reach {plain(shown.critical_tau)} for p ≤ 0.05"
        )
        detectable = (
            ""
            if shown.detectable_tau is None
            else f", and only a true τ of {plain(shown.detectable_tau)} is found 8 times of 10"
        )
        said.append(f"WARNING: {n} scorers show little: {critical}{detectable}.")
    return said


def _differences(what: str, differences: Sequence[Difference]) -> Table:
    rows = []
    for one in differences:
        tau = one.differences[0]
        rows.append([
            _named(one.first), _named(one.second), str(one.n), plain(tau.first),
            plain(tau.second), plain(tau.value, signed=True),
            f"{p_value(tau.p)} / {p_value(one.p_holm)}",
        ])  # fmt: skip
    columns = ["first", "second", "n", "τ of the first", "of the second", "difference", "p / Holm"]
    title = f"which metric predicts {what} better (Kendall τ-b)"
    return Table(title, columns, rows, [COMPARED_NOTE], 2)


def _named(side: tuple[str, str]) -> str:
    return f"{side[1]} on {side[0]}"
