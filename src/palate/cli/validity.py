"""palate validity: does a benchmark predict what users get?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from palate.cli import options as flags
from palate.cli.console import bars, show
from palate.reports import Form
from palate.runs import load_runs


def validity(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished benchmark runs.")],
    downstream: Annotated[
        list[Path],
        typer.Option(
            "-d",
            "--downstream",
            help="What best-of-n --format json printed; repeat. Metrics are compared on the first.",
        ),
    ],
    k: Annotated[
        int | None, typer.Option("-k", help="Best of how many; default half the samples.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", help="accuracy, mirrored accuracy, shift, gain or identity gain."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--plot", help="Also draw it, into a PNG or SVG.")
    ] = None,
    rbo_p: Annotated[float, typer.Option(help="Persistence of RBO, between 0 and 1.")] = 0.9,
    gain: Annotated[
        Literal["shifted", "rank", "exponential"],
        typer.Option(help="Gain of NDCG: quality less the worst, rank, or 2^rank − 1."),
    ] = "shifted",
    seed: flags.Seed = 0,
    form: flags.Format = Form.TABLE,
) -> None:
    """Rank agreement of benchmark metrics with downstream quality, over three scorers or more."""
    # Takes half a second, which no other command should pay.
    from palate.reports.pictures import check_picture
    from palate.reports.validity import plot_validity, validity_json, validity_tables
    from palate.validity import METRICS, Statistics, read_downstream
    from palate.validity import validity as measure

    if picture is not None:
        check_picture(picture)
    below = [one for path in downstream for one in read_downstream(path, k)]
    how = Statistics(rbo_p, gain, seed)
    with bars() as shown:
        bar = shown.start("rankings")
        found = measure(load_runs(runs), below, metrics=metric or METRICS, how=how, progress=bar)
    show(validity_tables(found), form, validity_json(found))
    if picture is not None:
        plot_validity(found, picture)
