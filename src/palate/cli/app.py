"""The command line: one file per command."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from palate.cli.bench import bench
from palate.cli.best_of import best_of
from palate.cli.compare import compare_runs
from palate.cli.console import err, notices
from palate.cli.demo import demo
from palate.cli.evaluate import evaluate
from palate.cli.learning_curve import learning_curve
from palate.cli.list import list_things
from palate.cli.personal import adapt, add_methods
from palate.cli.personal_policy import train_policy
from palate.cli.report import make_report
from palate.cli.selfcheck import check_self
from palate.cli.show import show_pair
from palate.cli.train import train
from palate.cli.validity import validity
from palate.errors import PalateError

app = typer.Typer(
    name="palate",
    help="Measure whether a reward model knows whom it is judging for.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo)
app.command("evaluate")(evaluate)
app.command("compare")(compare_runs)
app.command("show")(show_pair)
app.command("list")(list_things)
app.command("selfcheck")(check_self)
app.command("bench")(bench)
app.command("best-of-n")(best_of)
app.command("validity")(validity)
app.command("report")(make_report)
app.command("adapt")(adapt)
app.command("learning-curve")(learning_curve)
add_methods(train)
train.command("p-dpo")(train_policy)
app.add_typer(train, name="train")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"palate {version('palate')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version
    notices()


def main() -> None:
    """Run the command line; palate's own errors are one line and an exit code."""
    try:
        app()
    except PalateError as error:
        err.print(
            f"palate: {error}", style="bold red", highlight=False, markup=False, soft_wrap=True
        )
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        err.print("palate: stopped; run the same command again to go on", style="bold")
        sys.exit(130)
