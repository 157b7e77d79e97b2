"""palate learning-curve: what more choices are worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from palate.benchmarks import load_benchmark
from palate.cli import options as flags
from palate.cli.compute_options import Devices
from palate.cli.console import bars, show
from palate.cli.data_options import DatedReading
from palate.cli.flatten import flatten_options
from palate.reports import Form
from palate.reports.kinds.learning_curve import tables as curve_tables
from palate.reports.plot import plot
from palate.session import default_session
from palate.uses.learning_curve import FIXED, REPEATS, SHOTS
from palate.uses.learning_curve import learning_curve as measure


@dataclass(frozen=True)
class ShotOptions:
    """How many of a user's choices a model learns from, and whose."""

    shots: Annotated[list[int], typer.Option(help="Choices per user; may be repeated.")] = field(
        default_factory=lambda: list(SHOTS)
    )
    repeats: Annotated[int, typer.Option(help="Draws of each number of choices.", min=1)] = REPEATS
    fixed: Annotated[
        int, typer.Option(help="Users with as many choices or more are on the curve.")
    ] = FIXED


@dataclass(frozen=True)
class BaselineOptions:
    """What stands beside the models."""

    baseline: Annotated[
        list[str] | None, typer.Option(help="Scorer that reads no choices, for scale; repeat.")
    ] = None
    majority: Annotated[
        bool, typer.Option("--majority", help="Also what most of the other users chose, for scale.")
    ] = False


@flatten_options
def learning_curve(
    benchmark: Annotated[str, flags.benchmark_option(help="Pairs with an adapt split.")],
    model: Annotated[
        list[Path], typer.Option("-m", "--model", help="Folder that palate train made; repeat.")
    ],
    drawn: ShotOptions,
    compared: BaselineOptions,
    devices: Devices,
    reading: DatedReading,
    mirrors: flags.Mirrors = None,
    output: flags.Root = Path("runs"),
    picture: flags.Picture = None,
    form: flags.Format = Form.TABLE,
) -> None:
    """Accuracy and concordance against choices per user, on one fixed set of users."""
    pairs = load_benchmark(
        benchmark,
        mirrored=mirrors,
        seed=devices.seed,
        since=reading.since,
        until=reading.until,
        options=reading.options(),
    )
    with bars(default_session().ledger.progress) as display:
        curve = measure(
            pairs,
            model,
            shots=drawn.shots,
            repeats=drawn.repeats,
            fixed=drawn.fixed,
            baselines=compared.baseline or (),
            majority=compared.majority,
            root=output,
            settings=devices.settings(),
            progress=display.start(f"learning curves on {pairs.name}"),
        )
    show(curve_tables(curve), form, curve.document())
    if picture is not None:
        plot(curve, picture)
