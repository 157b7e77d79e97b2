"""What six scorers can and cannot show, as a figure and a table.

    python -m studies.validity.small_n FILE.png

All 720 orders of six scorers against one downstream ranking: how often chance alone reaches the
rank correlations reported for six reward models, by Spearman's ρ and by NDCG under three gains; and
the rank correlations that more scorers could show.
"""

from __future__ import annotations

import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from palate.metrics import rank_power
from palate.metrics.ranks import SPEARMAN
from palate.reports import Form, Table, render
from palate.reports.parts import panels, save

N = 6
REPORTED_RHO = {"best of n": 9 / 35, "PPO": 13 / 35}
REPORTED_NDCG = 0.918
GAINS = {"6 … 1": np.arange(1.0, 7.0), "5 … 0": np.arange(6.0), "2ʳ − 1": 2.0 ** np.arange(6) - 1}
SIZES = (4, 5, 6, 8, 10, 12, 15, 20, 30, 50)
AT_LEAST = 1e-9


def main() -> None:
    """Draw the figure and print the table."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    figure, axes = panels(1, 3, (4.6, 3.6))
    rows = [*by_rho(axes[0][0]), *by_ndcg(axes[0][1])]
    rows += by_size(axes[0][2])
    save(figure, Path(sys.argv[1]))
    columns = ["what", "value", "by chance alone"]
    sys.stdout.write(render([Table(f"{N} scorers", columns, rows)], Form.MARKDOWN))


def by_rho(ax: Any) -> list[list[str]]:
    """Show all ρ that six untied scorers can have, and where the reported ones lie."""
    values = _over_all_orders(SPEARMAN)
    critical = rank_power(N).critical_rho
    assert critical is not None
    step = 2 / 35
    edges = np.arange(-1 - step / 2, 1 + step, step)
    ax.hist(values, edges, weights=np.full(values.size, 100 / values.size), color="0.8")
    shown = np.abs(values) >= critical - AT_LEAST
    ax.hist(values[shown], edges, weights=np.full(shown.sum(), 100 / values.size), color="C0")
    rows = []
    for k, (use, rho) in enumerate(REPORTED_RHO.items()):
        p = float(np.mean(np.abs(values) >= rho - AT_LEAST))
        ax.axvline(rho, color="C3", lw=1.2, ls=("-", "--")[k], label=f"{use}: {rho:.3f}, p {p:.2f}")
        rows.append([f"Spearman ρ, {use}", f"{rho:.4f}", f"p = {p:.2f}, two-sided"])
    rows.append(["Spearman ρ, smallest with p ≤ 0.05", f"{critical:.3f}", ""])
    ax.set_title(f"Spearman ρ of {N} scorers ranked at random", fontsize=9, loc="left")
    ax.set_xlabel(f"ρ (blue: |ρ| ≥ {critical:.3f}, p ≤ 0.05)", fontsize=8)
    ax.set_ylabel("% of all orders", fontsize=8)
    _finish(ax)
    return rows


def by_ndcg(ax: Any) -> list[list[str]]:
    """Show what a random ranking gets in NDCG, by the gain that is left unsaid."""
    rows = []
    for k, (name, gains) in enumerate(GAINS.items()):
        values = _over_all_orders(lambda orders, truth, gains=gains: _ndcg(orders, gains))
        reached = float(np.mean(values >= REPORTED_NDCG - AT_LEAST))
        ordered = np.sort(values)
        ax.plot(ordered, 100 * (1 - np.arange(ordered.size) / ordered.size), color=f"C{k}", lw=1.4,
                label=f"gains {name}: mean {values.mean():.3f}")  # fmt: skip
        rows.append([f"NDCG, gains {name}", f"{REPORTED_NDCG}",
                     f"mean {values.mean():.3f}; reached in {reached:.0%}"])  # fmt: skip
    ax.axvline(REPORTED_NDCG, color="C3", lw=1.2, label=f"reported: {REPORTED_NDCG}")
    ax.set_title(f"NDCG of {N} scorers ranked at random", fontsize=9, loc="left")
    ax.set_xlabel("NDCG", fontsize=8)
    ax.set_ylabel("% of all orders with at least that", fontsize=8)
    _finish(ax)
    return rows


def by_size(ax: Any) -> list[list[str]]:
    """Show which τ scorers in this number can tell from chance, and how well they know one."""
    found = [rank_power(n) for n in SIZES]
    critical = [np.nan if one.critical_tau is None else one.critical_tau for one in found]
    least = [one.minimum_detectable_tau for one in found]
    detected = [np.nan if tau is None else tau for tau in least]
    ax.plot(SIZES, critical, "o-", ms=3, color="C0", label="smallest τ with p ≤ 0.05")
    ax.plot(SIZES, detected, "s-", ms=3, color="C3", label="true τ found 8 times of 10")
    half = [(one.intervals[1][1].high - one.intervals[1][1].low) / 2 for one in found]  # type: ignore[operator]
    ax.plot(SIZES, half, "^-", ms=3, color="0.5", label="half width of the interval at τ = ½")
    ax.set_xscale("log")
    ax.set_xticks(SIZES, [str(n) for n in SIZES], fontsize=7, minor=False)
    ax.set_xticks([], minor=True)
    ax.set_ylim(0, 1.05)
    ax.set_title("what n scorers can show", fontsize=9, loc="left")
    ax.set_xlabel("scorers", fontsize=8)
    ax.set_ylabel("Kendall τ", fontsize=8)
    _finish(ax)
    return [
        [f"Kendall τ, {n} scorers", f"τ ≥ {c:.2f} for p ≤ 0.05",
         f"true τ found 8 times of 10: {d:.2f}; ± {h:.2f} at τ = ½"]
        for n, c, d, h in zip(SIZES, critical, detected, half, strict=True) if n in (6, 10, 15, 30)
    ]  # fmt: skip


def _over_all_orders(statistic: Any) -> np.ndarray:
    orders = np.array(list(permutations(range(N))), dtype=float)
    return np.asarray(statistic(orders, np.arange(float(N))))


def _ndcg(orders: np.ndarray, gains: np.ndarray) -> np.ndarray:
    ranked = gains[np.argsort(-orders, axis=1)]
    discount = 1 / np.log2(np.arange(2, N + 2))
    return (ranked @ discount) / (np.sort(gains)[::-1] @ discount)


def _finish(ax: Any) -> None:
    ax.legend(fontsize=7, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=7)


if __name__ == "__main__":
    main()
