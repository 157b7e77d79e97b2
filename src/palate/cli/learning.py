"""palate learning-curve: what more choices are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palate.benchmarks import LoadOptions, load_benchmark
from palate.cli import options as flags
from palate.cli.console import bars, show
from palate.curves import FIXED, REPEATS, SHOTS
from palate.curves import learning_curve as measure
from palate.data import parse_columns
from palate.errors import UsageError
from palate.reports import Form
from palate.reports.curve import curve_json, curve_tables, plot_curve
from palate.reports.pictures import check_picture


def learning_curve(
    benchmark: Annotated[str, typer.Option("-b", "--benchmark", help="Pairs with an adapt split.")],
    model: Annotated[
        list[Path], typer.Option("-m", "--model", help="Folder that palate train made; repeat.")
    ],
    shots: Annotated[str, typer.Option(help="Choices per user, comma-separated.")] = ",".join(
        map(str, SHOTS)
    ),
    repeats: Annotated[int, typer.Option(help="Draws of each number of choices.", min=1)] = REPEATS,
    fixed: Annotated[
        int, typer.Option(help="Users with as many choices or more are on the curve.")
    ] = FIXED,
    mirrors: flags.Mirrors = None,
    baseline: Annotated[
        list[str] | None, typer.Option(help="Scorer that reads no choices, for scale; repeat.")
    ] = None,
    majority: Annotated[
        bool, typer.Option("--majority", help="Also what most of the other users chose, for scale.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option("--plot", help="Also draw it, into a PNG or SVG.")
    ] = None,
    seed: flags.Seed = 0,
    dtype: flags.Dtype = None,
    device: flags.Device = None,
    columns: flags.Map = None,
    skip_bad_rows: flags.SkipBadRows = False,
    form: flags.Format = Form.TABLE,
) -> None:
    """Accuracy and concordance against choices per user, on one fixed set of users."""
    if picture is not None:
        check_picture(picture)
    options = LoadOptions(columns=parse_columns(columns or []), skip_bad_rows=skip_bad_rows)
    pairs = load_benchmark(benchmark, mirrored=mirrors, seed=seed, options=options)
    with bars() as shown:
        curve = measure(
            model,
            pairs,
            shots=_numbers(shots),
            repeats=repeats,
            fixed=fixed,
            baselines=baseline or (),
            majority=majority,
            settings=flags.make_settings(seed, dtype, device),
            progress=shown.start(f"learning curves on {pairs.name}"),
        )
    show(curve_tables(curve), form, curve_json(curve))
    if picture is not None:
        plot_curve(curve, picture)


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise UsageError(f"--shots {text}: expected whole numbers such as 0,5,20")
    return [int(part) for part in parts]
