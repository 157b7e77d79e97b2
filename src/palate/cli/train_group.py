"""palate train: a command for every kind of model that can be trained."""

from __future__ import annotations

import typer

from palate.cli.completion import names
from palate.cli.lazy import add_lazy

train = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Train a reward model or a planner on users' data.",
)
add_lazy(
    train,
    "classifier",
    "Train a Bradley–Terry reward model with a classification head through TRL.",
    "palate.cli.train:train_a_classifier",
)
add_lazy(
    train,
    "autoregressive",
    "Train a reward for every token (GenARM) through TRL.",
    "palate.cli.train:train_token_rewards",
)
add_lazy(
    train,
    "planner",
    "Train a planner: from question and profile to what this user expects of an answer.",
    "palate.cli.train:train_a_planner",
)
for method in names("palate.methods"):
    add_lazy(
        train, method, f"Train {method} on users' choices.", "palate.cli.personal:trainer", method
    )
add_lazy(
    train,
    "p-dpo",
    "Train a language model with soft tokens per user (P-DPO), a reward for every token.",
    "palate.cli.personal_policy:train_policy",
)
