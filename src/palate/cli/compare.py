"""palate compare: runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palate.cli import options as flags
from palate.cli.console import show
from palate.comparison import compare
from palate.reports import Form, comparison_tables
from palate.runs import load_runs


def compare_runs(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold them.")],
    details: flags.Details = False,
    form: flags.Format = Form.TABLE,
) -> None:
    """Compare finished runs on their common pairs: paired, by user and question, with Holm.

    Scorers are compared under one context at a time.
    """
    comparison = compare(load_runs(runs))
    show(comparison_tables(comparison, details=details), form, comparison.document())
