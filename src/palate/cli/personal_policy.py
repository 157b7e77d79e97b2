"""palate train p-dpo: a language model with soft tokens per user."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from palate.cli.compute_options import Devices
from palate.cli.flatten import flatten_options
from palate.cli.training_data import (
    RecipeOptions,
    RowsToRead,
    TunedModel,
    UntrainedUsers,
    choices_of,
    learn,
    loss_of,
    steps_of,
)
from palate.learning.p_dpo import METHOD, USERS, PreferenceOptions

DEFAULT = PreferenceOptions()


@dataclass(frozen=True)
class PolicyRecipe(RecipeOptions):
    """How a policy and its users' soft tokens are trained."""

    steps: Annotated[int, typer.Option(help="Optimiser steps; 0 saves the untrained start.")] = 200
    batch_pairs: Annotated[int, typer.Option(help="Choices a step.")] = 8
    learning_rate: Annotated[float, typer.Option(help="Of the adapters, at its peak.")] = 5e-4
    tokens: Annotated[int, typer.Option(help="Soft tokens of a user.")] = DEFAULT.tokens
    alpha: Annotated[float, typer.Option(help="Weight of the loss that knows the user.")] = (
        DEFAULT.alpha
    )
    beta: Annotated[float, typer.Option(help="Of DPO.")] = DEFAULT.beta
    prior_std: Annotated[
        float, typer.Option(help="How far users may differ, in sizes of a word's vector.")
    ] = DEFAULT.prior_std
    rate: Annotated[
        float, typer.Option(help="Learning rate of the soft tokens, in the same unit.")
    ] = DEFAULT.rate
    rank: Annotated[int, typer.Option(help="Rank of the adapters; their alpha is twice it.")] = 8


@flatten_options
def train_policy(
    model: TunedModel,
    users: UntrainedUsers,
    recipe: PolicyRecipe,
    rows: RowsToRead,
    devices: Devices,
) -> None:
    """Train a language model with soft tokens per user (P-DPO), a reward for every token."""
    trained = learn(METHOD, model, rows, users, devices, options=asdict(recipe))
    typer.echo(
        f"{steps_of(trained)}{choices_of(trained)}"
        + (f" ({trained.n_too_long:,} choices too long)" if trained.n_too_long else "")
        + loss_of(trained)
    )
    typer.echo(f"states of the users trained on: {trained.folder / USERS}")
    typer.echo(f"evaluate it with: palate evaluate -s personal:{trained.folder} …")
