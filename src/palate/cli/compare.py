"""palate compare: runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palate.cli import options as flags
from palate.cli.console import err, show
from palate.comparison import compare
from palate.reports import Form, comparison_tables
from palate.runs import load_runs


def compare_runs(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold them.")],
    details: flags.Details = False,
    form: flags.Format = Form.TABLE,
    fail_if_worse: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Exit 1 if one is worse than this run's scorer, p < 0.05."
        ),
    ] = None,
) -> None:
    """Compare finished runs on their common pairs: paired, by user and question, with Holm.

    Scorers are compared under one context at a time. With --fail-if-worse it exits 1 where a
    scorer is shown to be worse than that of the run, which is among the arguments.
    """
    comparison = compare(load_runs(runs))
    worse = [] if fail_if_worse is None else comparison.worse_than(load_runs(fail_if_worse))
    show(comparison_tables(comparison, details=details), form, comparison.document())
    for test in worse:
        (other,) = {test.a.scorer, test.b.scorer} - {test.better}
        by = f"by {abs(test.value or 0):.3f} (p = {test.p_holm:.3g})"
        line = f"{other} is worse than {test.better} under {test.a.context} {by}"
        err.print(line, style="bold red", highlight=False, markup=False)
    if worse:
        raise typer.Exit(1)
