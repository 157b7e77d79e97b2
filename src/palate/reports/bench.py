"""The bench as a picture: how much faster each way is than the usual loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from palate.bench import PrefixBench
from palate.reports.pictures import panels, save

WAYS = {"sorted": "#9aa5b1", "shared": "#c1440e"}


def plot_bench(benches: Sequence[PrefixBench], file: Path) -> None:
    """Draw speed-ups as bars, and what token counts alone allow as a line, into a PNG or SVG.

    Raises `UsageError` without matplotlib, or where the file cannot be written.
    """
    figure, ((axes,),) = panels(1, 1, (7.5, 0.62 * len(benches) + 1.1))
    for k, bench in enumerate(benches):
        speeds = {"sorted": bench.usual_s / bench.sorted_s, "shared": bench.speedup}
        for j, (name, color) in enumerate(WAYS.items()):
            at = k + 0.36 * j - 0.18
            axes.barh(at, speeds[name], 0.34, color=color, label=name if k == 0 else None)
            axes.annotate(
                f"{speeds[name]:.2f} ×",
                (speeds[name], at),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                zorder=5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            )
        axes.plot(
            [bench.token_ideal] * 2,
            [k - 0.4, k + 0.4],
            color="black",
            lw=1.2,
            label="token counts alone" if k == 0 else None,
        )
    axes.set_yticks(
        range(len(benches)), [f"{bench.case}\n{bench.dtype}" for bench in benches], fontsize=8
    )
    axes.invert_yaxis()
    axes.axvline(1, color="#d0d4d9", lw=1, zorder=0)
    axes.set_xlabel("times as fast as the usual loop")
    axes.set_xlim(0, 1.1 * max(bench.speedup for bench in benches))
    figure.legend(frameon=False, fontsize=8, loc="outside upper right", ncols=3)
    save(figure, file)
