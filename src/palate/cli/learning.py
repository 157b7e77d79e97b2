"""palate learning-curve: what more choices are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palate.benchmarks import LoadOptions, load_benchmark
from palate.cli import options as flags
from palate.cli.console import bars, show
from palate.curves import COUNTS, FIXED, REPEATS, majority_of_others
from palate.curves import learning_curve as measure
from palate.data import parse_columns
from palate.errors import UsageError
from palate.evaluation import Options, evaluate
from palate.personal import Trained
from palate.records import traits_of
from palate.reports import Form
from palate.reports.curve import curve_json, curve_tables, plot_curve
from palate.reports.pictures import check_picture
from palate.scorers import build_scorer


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
    beside: Annotated[
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
    """Accuracy and shift against choices per user, on one fixed set of users."""
    if picture is not None:
        check_picture(picture)
    options = LoadOptions(columns=parse_columns(columns or []), skip_bad_rows=skip_bad_rows)
    pairs = load_benchmark(benchmark, mirrored=mirrors, seed=seed, options=options)
    settings = flags.make_settings(seed, dtype, device)
    if majority and pairs.mirrored:
        raise UsageError(
            "--majority means nothing on mirrored couples: leaving out a vote tips every close "
            "majority against it; leave --mirrors away, couples are found in the whole set too"
        )
    for spec in beside or []:
        if traits_of(build_scorer(spec, settings), spec).needs_user:
            raise UsageError(f"--beside {spec}: it reads users' choices; name its folder with -m")
    names = [folder.name for folder in model]
    if len(set(names)) < len(names):
        raise UsageError("two models have one folder name; rename one")
    models = {folder.name: Trained.load(folder) for folder in model}
    how = Options(settings)
    with bars() as shown:
        blind = {
            spec: evaluate(
                spec, pairs, root=None, options=how, progress=shown.start(spec)
            ).verdicts.values
            for spec in beside or []
        }
        if majority:
            blind["majority of the others"] = majority_of_others(pairs)
        found = measure(
            models,
            pairs,
            counts=_numbers(counts),
            repeats=repeats,
            fixed=fixed,
            blind=blind,
            settings=settings,
            progress=shown.start(f"learning curves on {pairs.name}"),
        )
    show(curve_tables(pairs.name, found), form, curve_json(pairs.name, found))
    if picture is not None:
        plot_curve(found, picture)


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise UsageError(f"--counts {text}: expected whole numbers such as 0,5,20")
    return [int(part) for part in parts]
