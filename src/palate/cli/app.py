"""The command line: one file per command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from palate.cli.lazy import CommandsOfTwoWords, add_lazy
from palate.cli.notices import notices
from palate.errors import PalateError

app = typer.Typer(
    name="palate",
    cls=CommandsOfTwoWords,
    help="Measure whether a reward model knows whom it is judging for.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
COMMANDS = {
    "demo": (
        "demo:demo",
        "Evaluate small real models on the bundled benchmark, and make a page of what they show.",
    ),
    "evaluate": (
        "evaluate:evaluate",
        "Evaluate scorers, each shown what the contexts choose of the user.",
    ),
    "score": ("score:score", "Write every response's score under the contexts into a file."),
    "data": (
        "data:data",
        "Print what palate reads in a file: layout, counts, three rows, what evaluation would use.",
    ),
    "compare": (
        "compare:compare_runs",
        "Compare finished runs on their common pairs: paired, by user and question, with Holm.",
    ),
    "verify": (
        "verify:verify",
        "Check runs that others made: rows, data, journals, figures; score some rows afresh.",
    ),
    "show": ("show:show_pair", "Print what a scorer would see of one pair, under each context."),
    "list": (
        "list:list_things",
        "List benchmarks, scorers, contexts, methods and qualities, installed packages' too.",
    ),
    "selfcheck": ("selfcheck:check_self", "Check figures and intervals against planted truth."),
    "bench": (
        "bench:bench",
        "Measure what reading shared beginnings once saves, against the usual loop.",
    ),
    "best-of-n": (
        "best_of:best_of",
        "Draw n answers to every question, let scorers pick, and rate what they picked.",
    ),
    "decode": (
        "decode:decode",
        "Let scorers guide what a policy writes, each shown the contexts, and rate the answers.",
    ),
    "policy-accuracy": (
        "policy_accuracy:policy_accuracy",
        "Ask how often a steered policy makes what its user chose the more probable response.",
    ),
    "ppo": ("ppo:ppo", "Train a policy on a scorer's reward, and evaluate it on held-out users."),
    "validity": (
        "validity:validity",
        "Rank agreement of benchmark metrics with downstream quality, over three scorers or more.",
    ),
    "audit": (
        "audit:audit",
        "Check whether a benchmark's pairs differ by their users' taste alone.",
    ),
    "study": ("study_group:study", "Have people judge exactly what a model is shown."),
    "agreement": (
        "agreement:agreement",
        "How far raters agree with each other, with the gold and with scorers.",
    ),
    "replies": ("replies:keep", "Keep the replies of batches, whose requests evaluate wrote."),
    "serve": ("serve:serve", "Serve a scorer as a reward to trainers, over HTTP."),
    "export": (
        "export:export_folder",
        "Write a folder from which another trainer trains a policy on a scorer's rewards.",
    ),
    "export rewardbench": (
        "export_rewardbench:export_rewardbench",
        "Write pairs as a file that RewardBench's own program reads and scores.",
    ),
    "export hub": (
        "export_hub:export_hub",
        "Write what the hub shows: .eval_results/*.yaml of each model, eval.yaml of the data set.",
    ),
    "report": (
        "report:make_report",
        "Make one self-contained page from finished runs: no model, no connection.",
    ),
    "adapt": ("personal:adapt", "Learn a state for every user of a file, all in one job."),
    "learning-curve": (
        "learning_curve:learning_curve",
        "Accuracy and concordance against choices per user, on one fixed set of users.",
    ),
    "train": ("train_group:train", "Train a reward model or a planner on users' data."),
    "build": ("build_group:build", "Make a benchmark of what users wrote."),
}
"""Where every command is, and its line of help."""
RESUMING = (
    *("demo", "evaluate", "score", "best-of-n", "decode", "policy-accuracy", "ppo", "audit"),
    "build",
)
"""Commands that keep what they have computed, and go on from there."""
INTERRUPTED = 130

for name, (target, line) in COMMANDS.items():
    add_lazy(app, name, line, f"palate.cli.{target}")


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

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
    except (KeyboardInterrupt, SystemExit) as stop:
        # Of an interrupt typer makes this exit code, and says nothing.
        if isinstance(stop, SystemExit) and stop.code != INTERRUPTED:
            raise
        from palate.cli.console import err

        goes_on = sys.argv[1:2] and sys.argv[1] in RESUMING
        what = "; run the same command again to go on" if goes_on else ""
        err.print(f"palate: stopped{what}", style="bold")
        sys.exit(INTERRUPTED)
    except PalateError as error:
        from palate.cli.console import err

        err.print(
            f"palate: {error}", style="bold red", highlight=False, markup=False, soft_wrap=True
        )
        sys.exit(error.exit_code)
