"""palate agreement: how far people agree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palate.cli import options as flags
from palate.cli.console import show
from palate.reports import Form
from palate.reports.kinds.agreement import tables
from palate.study.agreement import agreement as measure


def agreement(
    source: Annotated[
        Path, typer.Argument(metavar="STUDY|ANSWERS.jsonl", help="Study, or a file of answers.")
    ],
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Runs to stand beside people, or their folders.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="In points; a study has its plan's.", show_default="0.25")
    ] = None,
    days: Annotated[
        float, typer.Option(help="Between an answer and a later one that may have drifted.")
    ] = 14,
    output: flags.Root = Path("runs"),
    form: flags.Format = Form.TABLE,
) -> None:
    """How far raters agree with each other, with the gold and with scorers."""
    result = measure(source, runs or (), margin=margin, days=days, root=output)
    show(tables(result), form, result.document())
