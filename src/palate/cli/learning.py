"""palate learning-curve: what more choices are worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from palate.benchmarks import LoadOptions, load_benchmark
from palate.cli import options as flags
from palate.cli.console import bars, show
from palate.data import parse_columns
from palate.errors import UsageError
from palate.evaluation.learning_curve import COUNTS, FIXED, REPEATS, Point
from palate.evaluation.learning_curve import learning_curve as measure
from palate.personal import Trained
from palate.reports import Form
from palate.reports.curve import curve_table, plot_curve


def learning_curve(
    benchmark: Annotated[str, typer.Option("-b", "--benchmark", help="Pairs with an adapt split.")],
    model: Annotated[
        list[Path], typer.Option("-m", "--model", help="Folder that palate train made; repeat.")
    ],
    counts: Annotated[str, typer.Option(help="Choices per user, comma-separated.")] = ",".join(
        map(str, COUNTS)
    ),
    repeats: Annotated[int, typer.Option(help="Draws of each number of choices.", min=1)] = REPEATS,
    fixed: Annotated[
        int, typer.Option(help="Users with as many choices or more are on the curve.")
    ] = FIXED,
    mirrors: flags.Mirrors = None,
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
    """Accuracy and shift against choices per user, on one fixed set of users."""
    options = LoadOptions(columns=parse_columns(columns or []), skip_bad_rows=skip_bad_rows)
    pairs = load_benchmark(benchmark, mirrored=mirrors, seed=seed, options=options)
    settings = flags.make_settings(seed, dtype, device)
    names = [folder.name for folder in model]
    if len(set(names)) < len(names):
        raise UsageError("two models have one folder name; rename one")
    with bars() as shown:
        found = measure(
            {folder.name: Trained.load(folder) for folder in model},
            pairs,
            counts=_numbers(counts),
            repeats=repeats,
            fixed=fixed,
            settings=settings,
            progress=shown.start(f"learning curves on {pairs.name}"),
        )
    show([curve_table(pairs.name, found)], form, _json(pairs.name, found))
    if picture is not None:
        plot_curve(found, picture)


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise UsageError(f"--counts {text}: expected whole numbers such as 0,5,20")
    return [int(part) for part in parts]


def _json(name: str, found: Sequence[Point]) -> dict[str, Any]:
    def figure(estimate: Any) -> dict[str, Any] | None:
        if estimate is None:
            return None
        return {"value": estimate.value, "low": estimate.low, "high": estimate.high,
                "n": estimate.n}  # fmt: skip

    points = [
        {
            "model": one.model, "group": one.group, "choices": one.choices,
            "n_users": one.n_users, "n_pairs": one.n_pairs, "accuracy": figure(one.accuracy),
            "mirrored_accuracy": figure(one.mirrored), "particular": figure(one.particular),
            "shift": figure(one.shift),
            "gain": figure(one.gain), "p": one.p,
        }
        for one in found
    ]  # fmt: skip
    return {"schema": 1, "benchmark": name, "curve": points}
