"""palate validity: does a benchmark predict what users get?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palate.cli import options as flags
from palate.cli.console import bars, show
from palate.reports import Form
from palate.reports.kinds.validity import tables as validity_tables
from palate.reports.plot import plot
from palate.validity import METRICS
from palate.validity import validity as measure


def validity(
    roots: Annotated[
        list[Path], typer.Argument(help="Folders that hold runs and what best-of-n wrote.")
    ],
    k: Annotated[
        int | None, typer.Option("-k", help="Best of how many; default half the samples.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", help="accuracy, mirrored accuracy, concordance, gain or identity gain."
        ),
    ] = None,
    picture: flags.Picture = None,
    seed: flags.Seed = 0,
    form: flags.Format = Form.TABLE,
) -> None:
    """Rank agreement of benchmark metrics with downstream quality, over three scorers or more.

    The result is kept beside the best-of-n.
    """
    with bars() as display:
        result = measure(
            roots,
            k,
            metrics=metric or METRICS,
            seed=seed,
            root=roots[0],
            progress=display.start("rankings"),
        )
    show(validity_tables(result), form, result.document())
    if picture is not None:
        plot(result, picture)
