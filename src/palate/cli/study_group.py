"""palate study: people judge what a model is shown."""

from __future__ import annotations

import typer

from palate.cli.lazy import add_lazy

study = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Have people judge exactly what a model is shown.",
)
COMMANDS = {
    "plan": ("study_plan:plan", "Fix who is asked what, under a hash, before anybody is asked."),
    "serve": ("study_serve:serve", "Serve the study's pages to its raters."),
    "status": ("study_answers:status", "Print how far the raters are, and how they answer."),
    "close": ("study_answers:close", "Take no more answers: of one rater, or of all."),
    "forget": ("study_answers:forget", "Delete all that is kept of a rater or a user."),
    "export": ("study_answers:export", "Write answers, the contract's rows, or raters' lists."),
    "import": ("study_answers:import_answers", "Take answers that another tool gathered."),
}
for name, (target, line) in COMMANDS.items():
    add_lazy(study, name, line, f"palate.cli.{target}")


@study.callback()
def _group() -> None:
    """Have people judge exactly what a model is shown."""
