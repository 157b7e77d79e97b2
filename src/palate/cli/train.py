"""palate train classifier, autoregressive, planner: through TRL, on choices or rubrics."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from palate.cli.compute_options import Devices
from palate.cli.flatten import flatten_options
from palate.cli.training_data import (
    LeftOut,
    RecipeOptions,
    RowsToRead,
    TunedModel,
    learn,
    loss_of,
    steps_of,
)
from palate.learning.recipes import TrainedModel


@dataclass(frozen=True)
class NewPlanner(TunedModel):
    """A planner, which learns from rubrics."""

    data: Annotated[str, typer.Option(help="File of rows with rubric aspects, or a benchmark.")]


@dataclass(frozen=True)
class TokenRewardRecipe:
    """How a reward for every token is trained."""

    steps: Annotated[
        int | None,
        typer.Option(
            help="Optimiser steps; 0 saves the untrained start.",
            show_default="one pass over the pairs",
        ),
    ] = None
    batch_pairs: Annotated[int, typer.Option(help="Pairs a step.")] = 32
    learning_rate: Annotated[float, typer.Option(help="Peak of the schedule.")] = 5e-4
    max_length: Annotated[int, typer.Option(help="Longest conversation in tokens.")] = 1024
    beta: Annotated[float, typer.Option(help="What the sum of log-probabilities counts.")] = 0.05
    rank: Annotated[int, typer.Option(help="Rank of the adapters; their alpha is twice it.")] = 8


@dataclass(frozen=True)
class PlannerRecipe(RecipeOptions):
    """How a planner is trained."""

    steps: Annotated[int, typer.Option(help="Optimiser steps; 0 saves the untrained start.")] = 200
    batch_pairs: Annotated[int, typer.Option(help="Rows a step.")] = 8
    max_length: Annotated[int, typer.Option(help="Most tokens of prompt and aspects.")] = 2048
    posts: Annotated[int, typer.Option(help="Posts of the profile that are read.")] = 10
    rank: Annotated[int, typer.Option(help="Rank of the adapters.")] = 16


@flatten_options
def train_a_classifier(
    model: TunedModel,
    recipe: RecipeOptions,
    rows: RowsToRead,
    users: LeftOut,
    devices: Devices,
) -> None:
    """Train a Bradley–Terry reward model with a classification head through TRL."""
    trained = learn("classifier", model, rows, users, devices, options=asdict(recipe))
    _echo_pairs(trained, recipe.max_length)
    typer.echo(f"evaluate it with: palate evaluate -s classifier:{_as_reference(trained.folder)} …")


@flatten_options
def train_token_rewards(
    model: TunedModel,
    recipe: TokenRewardRecipe,
    rows: RowsToRead,
    users: LeftOut,
    devices: Devices,
) -> None:
    """Train a reward for every token (GenARM) through TRL."""
    options = {name: value for name, value in asdict(recipe).items() if value is not None}
    trained = learn("autoregressive", model, rows, users, devices, options=options)
    _echo_pairs(trained, recipe.max_length)
    spec = f"autoregressive:{_as_reference(trained.folder)}?beta={recipe.beta:g}"
    typer.echo(f'evaluate it with: palate evaluate -s "{spec}" …')


@flatten_options
def train_a_planner(
    model: NewPlanner,
    *,
    disjoint_from: Annotated[
        list[str] | None,
        typer.Option(help="Benchmark none of whose people may be trained on; may be repeated."),
    ] = None,
    recipe: PlannerRecipe,
    rows: RowsToRead,
    users: LeftOut,
    devices: Devices,
) -> None:
    """Train a planner: from question and profile to what this user expects of an answer."""
    trained = learn(
        "planner",
        model,
        rows,
        users,
        devices,
        options={**asdict(recipe), "disjoint_from": disjoint_from or ()},
    )
    typer.echo(
        f"{steps_of(trained)}{trained.n_pairs:,} rows ({trained.n_without:,} without aspects or "
        f"profile and {trained.n_too_long:,} over {recipe.max_length} tokens left out)"
        f"{loss_of(trained)}"
    )
    typer.echo(f"use it with: palate evaluate -c plan:{_as_reference(trained.folder)} …")


def _echo_pairs(made: TrainedModel, max_length: int) -> None:
    typer.echo(
        f"{steps_of(made)}{made.n_pairs:,} pairs "
        f"({made.n_too_long:,} over {max_length} tokens left out){loss_of(made)}"
    )


def _as_reference(folder: Path) -> str:
    text = str(folder)
    return text if text.startswith(("/", ".", "~")) else f"./{text}"
