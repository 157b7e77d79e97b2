"""The command line: one file per command."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from palate.cli.declare import names
from palate.cli.lazy import CommandsOfTwoWords, add_lazy, lazy_group
from palate.errors import PalateError

app = typer.Typer(
    name="palate",
    cls=CommandsOfTwoWords,
    help="Measure whether a reward model knows whom it is judging for.",
    epilog="Each task has a page: docs/README.md in palate's repository; make site builds them.",
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
        "results:compare_runs",
        "Compare finished runs on their common pairs: paired, by user and question, with Holm.",
    ),
    "verify": (
        "results:verify",
        "Check runs that others made: rows, data, journals, figures; score some rows afresh.",
    ),
    "show": (
        "evaluate:show_pair",
        "Print what a scorer would see of one pair, under each context.",
    ),
    "list": (
        "list:list_things",
        "List benchmarks, scorers, contexts, methods and qualities, installed packages' too.",
    ),
    "best-of-n": (
        "uses:best_of",
        "Draw n answers to every question, let scorers pick, and rate what they picked.",
    ),
    "forecast": (
        "uses:forecast",
        "Forecast best-of-n on a policy's answers from finished runs, before any is rated.",
    ),
    "decode": (
        "uses:decode",
        "Let scorers guide what a policy writes, each shown the contexts, and rate the answers.",
    ),
    "policy-accuracy": (
        "uses:policy_accuracy",
        "Ask how often a steered policy makes what its user chose the more probable response.",
    ),
    "ppo": ("ppo:ppo", "Train a policy on a scorer's reward, and evaluate it on held-out users."),
    "validity": (
        "uses:validity",
        "Rank agreement of benchmark metrics with downstream quality, over three scorers or more.",
    ),
    "audit": (
        "build:audit",
        "Check whether a benchmark's pairs differ by their users' taste alone.",
    ),
    "study": ("app:group", "Have people judge exactly what a model is shown."),
    "agreement": (
        "study:agreement",
        "How far raters agree with each other, with the gold and with scorers.",
    ),
    "replies": ("score:keep", "Keep the replies of batches, whose requests evaluate wrote."),
    "serve": ("serve:serve", "Serve a scorer as a reward to trainers, over HTTP."),
    "export": (
        "export:export_folder",
        "Write a folder from which another trainer trains a policy on a scorer's rewards.",
    ),
    "export rewardbench": (
        "export:export_rewardbench",
        "Write pairs as a file that RewardBench's own program reads and scores.",
    ),
    "export hub": (
        "export:export_hub",
        "Write what the hub shows: .eval_results/*.yaml of each model, eval.yaml of the data set.",
    ),
    "report": (
        "results:make_report",
        "Make one self-contained page from finished runs: no model, no connection.",
    ),
    "adapt": ("train:adapt", "Learn a state for every user of a file, all in one job."),
    "learning-curve": (
        "train:learning_curve",
        "Accuracy and concordance against choices per user, on one fixed set of users.",
    ),
    "train": ("app:group", "Train a reward model or a planner on users' data."),
    "build": ("app:group", "Make a benchmark of what users wrote."),
}
"""Where every command is, and its line of help."""
GROUPS = {
    "build": {
        "own-text": (
            "build:own_text",
            "Pair users' own texts with other texts on the same input, and leave out what leaks.",
        ),
        "pairs": (
            "build:pairs",
            "Let a language model write pairs to what users' own posts show, and drop what fails a "
            "check.",
        ),
    },
    "study": {
        "plan": ("study:plan", "Fix who is asked what, under a hash, before anybody is asked."),
        "serve": ("study:serve", "Serve the study's pages to its raters."),
        "status": ("study:status", "Print how far the raters are, and how they answer."),
        "close": ("study:close", "Take no more answers: of one rater, or of all."),
        "forget": ("study:forget", "Delete all that is kept of a rater or a user."),
        "export": ("study:export", "Write answers, the contract's rows, or raters' lists."),
        "import": ("study:import_answers", "Take answers that another tool gathered."),
    },
    "train": {
        "classifier": (
            "train:train_a_classifier",
            "Train a Bradley–Terry reward model with a classification head through TRL.",
        ),
        "autoregressive": (
            "train:train_token_rewards",
            "Train a reward for every token (GenARM) through TRL.",
        ),
        "planner": (
            "train:train_a_planner",
            "Train a planner: from question and profile to what this user expects of an answer.",
        ),
    },
}
"""The commands of each group of them, likewise."""
P_DPO = "Train a language model with soft tokens per user (P-DPO), a reward for every token."
RESUMING = (
    *("demo", "evaluate", "score", "best-of-n", "forecast", "decode", "policy-accuracy", "ppo"),
    *("audit", "build"),
)
"""Commands that keep what they have computed, and go on from there."""
INTERRUPTED = 130

PANELS = {
    "Test reward models": ("demo", "evaluate", "score", "replies", "show", "list"),
    "Compare, show and check": ("compare", "report", "verify", "export hub"),
    "Data and people": ("data", "audit", "build", "study", "agreement", "export rewardbench"),
    "Personal models": ("train", "adapt", "learning-curve"),
    "What users get": ("best-of-n", "forecast", "decode", "policy-accuracy", "ppo", "validity"),
    "Rewards": ("serve", "export"),
}
"""Groups of commands, as help prints them."""
for name, (target, line) in COMMANDS.items():
    panel = next(panel for panel, names in PANELS.items() if name in names)
    add_lazy(app, name, line, target, *([name] if name in GROUPS else []), panel=panel)


def group(name: str) -> typer.Typer:
    """Return a group of commands; `train` has one for each method that is installed."""
    commands = lazy_group(COMMANDS[name][1], GROUPS[name])
    if name == "train":
        for method in names("palate.methods"):
            line = f"Train {method} on users' choices."
            add_lazy(commands, method, line, "train:trainer", method)
        add_lazy(commands, "p-dpo", P_DPO, "train:train_policy")
    return commands


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

        err.print(f"palate: {error}", style="bold red")
        sys.exit(error.exit_code)


class PrintableFormatter(logging.Formatter):
    """Log lines with control characters made visible."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        from palate.reports import printable  # reports load numpy; few calls have a notice

        return printable(super().format(record))


def notices() -> None:
    """Send palate's own log lines to stderr, as it is now: an earlier call's may be closed."""
    log = logging.getLogger("palate")
    for handler in [it for it in log.handlers if isinstance(it.formatter, PrintableFormatter)]:
        log.removeHandler(handler)
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(PrintableFormatter("palate: %(message)s"))
        log.addHandler(handler)
    log.setLevel(logging.INFO)
