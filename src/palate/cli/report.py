"""palate report: one page from finished runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from palate.cli import options as flags
from palate.cli.console import err
from palate.cli.data_options import LayoutReading
from palate.cli.flatten import flatten_options
from palate.reports.page import report


@flatten_options
def make_report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Folders that hold runs, best-of-n, decode, validity, curves."),
    ],
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File of the page; it ends in .html.")
    ],
    benchmark: Annotated[
        list[str] | None,
        flags.benchmark_option(help="Data whose texts are shown: a benchmark or a file."),
    ] = None,
    reading: LayoutReading,
    source: flags.Source = None,
    texts: Annotated[
        bool, typer.Option("--texts", help="Show texts of files of your own too, and ids of rows.")
    ] = False,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for every figure as SVG and PDF.")
    ] = None,
) -> None:
    """Make one self-contained page from finished runs: no model, no connection.

    Users are named U1, U2, …; no path is on the page.
    """
    options = replace(reading.options(), source=source)
    report(runs, output, data=benchmark or [], reading=options, texts=texts, figures=figures)
    err.print(f"wrote {output}", highlight=False, markup=False)
