"""palate train, adapt and learning-curve: reward models that learn users' tastes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from palate.benchmarks import Dataset, load_benchmark, within
from palate.cli import options as flags
from palate.cli.console import bars, err, show_result
from palate.cli.declare import argument, named, option
from palate.cli.options import DatedReading, Devices
from palate.errors import UsageError
from palate.learning import P_DPO, USERS, PreferenceOptions, TrainedModel, rows_to_learn, train
from palate.learning import adapt as adapt_to
from palate.reports import Form
from palate.session import default_session
from palate.uses.learning_curve import FIXED, REPEATS, SHOTS
from palate.uses.learning_curve import learning_curve as measure

DEFAULT = PreferenceOptions()
STEPS = "Optimiser steps; 0 saves the untrained start."
RANK = "Rank of the adapters; their alpha is twice it."


@dataclass(frozen=True)
class NewModel:
    """What a model learns from, and where it is written."""

    data: str = option(..., "File of pairs, or a benchmark's name.")
    output: Path = option(..., "New folder for the model.", "-o", "--output")


@dataclass(frozen=True)
class TunedModel(NewModel):
    """A language model that is trained further."""

    base: str = option(..., "Model to start from: hub, ./folder or pypi:PACKAGE.")


@dataclass(frozen=True)
class NewPlanner(TunedModel):
    """A planner, which learns from rubrics."""

    data: str = option(..., "File of rows with rubric aspects, or a benchmark.")


@dataclass(frozen=True)
class RowsToRead(DatedReading):
    """Which rows are learnt from."""

    split: str | None = option(None, "Split to read; default adapt; without splits all rows.")

    def load(self, data: str) -> Dataset:
        """Load them, and say which votes are left out because they are evaluated."""
        pairs = rows_to_learn(data, self.split, self.options())
        pairs = within(pairs, self.since, self.until)
        if pairs.history_left_out:
            notice = (
                f"{pairs.history_left_out} votes left out: their users cast them in another split "
                "too, or went on from a response of one"
            )
            err.print(f"{pairs.name}: {notice}", style="yellow")
        return pairs


@dataclass(frozen=True)
class LeftOut:
    """Users who are named, and not trained on."""

    leave_out: list[str] = option([], "User who is not trained on; may be repeated.")


@dataclass(frozen=True)
class UntrainedUsers(LeftOut):
    """Users who are named or drawn, and not trained on."""

    held_out_users: float = option(
        0.0, "Share of users, drawn by the seed, that are not trained on."
    )


@dataclass(frozen=True)
class ShownUsers(UntrainedUsers):
    """Who is trained on, and what the model is shown of them."""

    contexts: list[str] = named("palate.contexts", [], "What is shown of the user; repeat.")
    shown_nothing: float = option(0.0, "Share of the rows that are shown nothing.")
    opposite: bool = option(False, "With each vote an opposite one of another user.")


NOT_SHOWN = named("palate.contexts", [], "Refused: nothing is shown of the user.", hidden=True)


@dataclass(frozen=True)
class RecipeOptions:
    """How a language model is trained."""

    steps: int = option(60, STEPS)
    batch_pairs: int = option(8, "Pairs a step.")
    learning_rate: float = option(5e-5, "Peak of the schedule.")
    max_length: int = option(1024, "Longest conversation in tokens.")


@dataclass(frozen=True)
class ApartFrom:
    """Whose people are not trained on."""

    disjoint_from: list[str] = option(
        [], "Benchmark none of whose people may be trained on; may be repeated."
    )


@dataclass(frozen=True)
class ClassifierRecipe(ApartFrom):
    """How a classifier is trained."""

    steps: int = option(60, STEPS)
    batch_pairs: int = option(8, "Pairs a step.")
    max_length: int = option(1024, "Longest conversation in tokens.")
    learning_rate: float | None = option(
        None, "Peak of the schedule.", show_default="5e-05; 0.0005 of adapters"
    )
    rank: int | None = option(None, RANK, "--lora-rank", show_default="all weights are trained")


@dataclass(frozen=True)
class TokenRewardRecipe(ApartFrom):
    """How a reward for every token is trained."""

    steps: int | None = option(None, STEPS, show_default="one pass over the pairs")
    batch_pairs: int = option(32, "Pairs a step.")
    learning_rate: float = option(5e-4, "Peak of the schedule.")
    max_length: int = option(1024, "Longest conversation in tokens.")
    beta: float = option(0.05, "What the sum of log-probabilities counts.")
    rank: int = option(8, RANK, "--lora-rank", "--rank")


@dataclass(frozen=True)
class PlannerRecipe(ApartFrom, RecipeOptions):
    """How a planner is trained."""

    steps: int = option(200, STEPS)
    batch_pairs: int = option(8, "Rows a step.")
    max_length: int = option(2048, "Most tokens of prompt and aspects.")
    posts: int = option(10, "Posts of the profile that are read.")
    rank: int = option(16, "Rank of the adapters.")


@dataclass(frozen=True)
class PolicyRecipe(RecipeOptions):
    """How a policy and its users' soft tokens are trained."""

    steps: int = option(200, STEPS)
    batch_pairs: int = option(8, "Choices a step.")
    learning_rate: float = option(5e-4, "Of the adapters, at its peak.")
    tokens: int = option(DEFAULT.tokens, "Soft tokens of a user.")
    alpha: float = option(DEFAULT.alpha, "Weight of the loss that knows the user.")
    beta: float = option(DEFAULT.beta, "Of DPO.")
    prior_std: float = option(
        DEFAULT.prior_std, "How far users may differ, in sizes of a word's vector."
    )
    rate: float = option(DEFAULT.rate, "Learning rate of the soft tokens, in the same unit.")
    rank: int = option(8, RANK)


def train_a_classifier(
    *,
    model: TunedModel,
    recipe: ClassifierRecipe,
    rows: RowsToRead,
    users: ShownUsers,
    devices: Devices,
) -> None:
    """Train a Bradley–Terry reward model with a classification head through TRL."""
    trained = _learn("classifier", model, rows, users, devices, vars(recipe))
    _echo_pairs(trained, recipe.max_length)
    typer.echo(f"evaluate it with: palate evaluate -s classifier:{_as_reference(trained.folder)} …")


def train_token_rewards(
    *,
    model: TunedModel,
    recipe: TokenRewardRecipe,
    rows: RowsToRead,
    users: ShownUsers,
    devices: Devices,
) -> None:
    """Train a reward for every token (GenARM) through TRL."""
    trained = _learn("autoregressive", model, rows, users, devices, vars(recipe))
    _echo_pairs(trained, recipe.max_length)
    spec = f"autoregressive:{_as_reference(trained.folder)}?beta={recipe.beta:g}"
    typer.echo(f'evaluate it with: palate evaluate -s "{spec}" …')


def train_a_planner(
    *,
    model: NewPlanner,
    recipe: PlannerRecipe,
    rows: RowsToRead,
    users: LeftOut,
    contexts: list[str] = NOT_SHOWN,
    devices: Devices,
) -> None:
    """Train a planner: from question and profile to what this user expects of an answer."""
    trained = _learn("planner", model, rows, users, devices, vars(recipe), contexts=contexts)
    typer.echo(
        f"{_steps_of(trained)}{trained.n_pairs:,} rows ({trained.n_without:,} without aspects or "
        f"profile and {trained.n_too_long:,} over {recipe.max_length} tokens left out)"
        f"{_loss_of(trained)}"
    )
    typer.echo(f"use it with: palate evaluate -c plan:{_as_reference(trained.folder)} …")


def train_policy(
    *,
    model: TunedModel,
    users: UntrainedUsers,
    recipe: PolicyRecipe,
    rows: RowsToRead,
    contexts: list[str] = NOT_SHOWN,
    devices: Devices,
) -> None:
    """Train a language model with soft tokens per user (P-DPO), a reward for every token."""
    trained = _learn(P_DPO, model, rows, users, devices, vars(recipe), contexts=contexts)
    typer.echo(
        f"{_steps_of(trained)}{_choices_of(trained)}"
        + (f" ({trained.n_too_long:,} choices too long)" if trained.n_too_long else "")
        + _loss_of(trained)
    )
    typer.echo(f"states of the users trained on: {trained.folder / USERS}")
    typer.echo(f"evaluate it with: palate evaluate -s personal:{trained.folder} …")


def trainer(method: str) -> Callable[..., None]:
    """Return the command that trains by a registered method."""

    def run(
        *,
        model: NewModel,
        embedder: list[str] = option(
            ..., "What turns responses into vectors: a model, style, api:…; repeat."
        ),
        given: list[str] = option([], "Option of the method, name=value.", "--set"),
        users: UntrainedUsers,
        rows: RowsToRead,
        contexts: list[str] = NOT_SHOWN,
        devices: Devices,
    ) -> None:
        options, how = dict(map(_read, given)), {"embedders": embedder, "contexts": contexts}
        trained = _learn(method, model, rows, users, devices, options, **how)
        typer.echo(f"{model.output}: {method} from {_choices_of(trained)}")
        chosen = ", ".join(f"{name} {value}" for name, value in trained.options.items())
        typer.echo(f"options: {chosen}" if chosen else "no options")

    run.__doc__ = f"Train {method} on users' choices."
    return run


def _read(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set {text}: expected name=value")
    try:
        return name, float(value)
    except ValueError:
        return name, value


def _learn(
    method: str,
    model: NewModel,
    rows: RowsToRead,
    users: LeftOut,
    devices: Devices,
    options: dict[str, Any],
    **how: Any,
) -> TrainedModel:
    """Train a method under a bar; `how` is what else `palate.train` takes."""
    settings, pairs = devices.settings(), rows.load(model.data)
    options = {name: value for name, value in options.items() if value is not None}
    how |= vars(users) | ({"base": model.base} if isinstance(model, TunedModel) else {})
    how |= {"options": options, "split": rows.split, "settings": settings}
    with bars(default_session().ledger.progress) as shown:
        advance = shown.start(f"{method} on {len(pairs.pairs):,} rows")
        trained = train(method, pairs, model.output, progress=advance, **how)
    for note in trained.notes:
        typer.echo(note)
    return trained


def _steps_of(made: TrainedModel) -> str:
    """Return what the optimiser did, in words."""
    return f"{made.folder}: {made.steps} steps in {made.seconds:.0f} s on {made.n_seen:,} of "


def _choices_of(made: TrainedModel) -> str:
    """Return how many choices were learnt from, of how many users, and who was left out."""
    left_out = f", {made.n_users_left_out:,} users left out" if made.n_users_left_out else ""
    return f"{made.n_pairs:,} choices of {made.n_users:,} users{left_out}"


def _loss_of(made: TrainedModel) -> str:
    """Return the first loss and the mean of the last ten, where there are any."""
    tail = made.losses[-10:]
    return f"; loss {made.losses[0]:.3f} → {sum(tail) / len(tail):.3f}" if tail else ""


def _echo_pairs(trained: TrainedModel, max_length: int) -> None:
    typer.echo(
        f"{_steps_of(trained)}{trained.n_pairs:,} pairs "
        f"({trained.n_too_long:,} over {max_length} tokens left out){_loss_of(trained)}"
    )
    if shown := trained.shown:
        typer.echo(
            f"shown: {', '.join(shown['contexts'])}, in {shown['rows_shown']:,} of "
            f"{trained.n_pairs:,} rows; {shown['opposite_votes']:,} opposite votes; left out: "
            f"{shown['parts_cut']:,} parts that do not fit, {shown['leaks_dropped']:,} that hold "
            f"an answer, {shown['later_posts']:,} posts not dated before their row"
        )


def _as_reference(folder: Path) -> str:
    text = str(folder)
    return text if text.startswith(("/", ".", "~")) else f"./{text}"


def adapt(
    model: Path = argument(..., "Folder that palate train made."),
    choices: str = option(..., "File of the users' choices, or a benchmark."),
    output: Path = option(..., "File for the states.", "-o", "--output"),
    *,
    reference: str | None = option(None, "Where the model lies that p-dpo started from, if moved."),
    rows: RowsToRead,
    devices: Devices,
) -> None:
    """Learn a state for every user of a file, all in one job."""
    settings, pairs = devices.settings(), rows.load(choices)
    how: dict[str, Any] = {"reference": reference, "split": rows.split, "settings": settings}
    with bars(default_session().ledger.progress) as display:
        advance = display.start(f"{len(pairs.pairs):,} choices")
        states = adapt_to(model, pairs, output, progress=advance, **how)
    n = len(states.keys)
    typer.echo(f"{output}: {n:,} users, {states.bytes_each:,.0f} bytes of state each")
    if states.n_too_long:
        typer.echo(f"{states.n_too_long:,} choices left out: too long for the model")
    typer.echo(f"use it with: palate evaluate -s 'personal:{model}?users={output}' …")


@dataclass(frozen=True)
class ShotOptions:
    """How many of a user's choices a model learns from, whose, and what stands beside."""

    shots: list[int] = option([*SHOTS], "Choices per user; may be repeated.")
    repeats: int = option(REPEATS, "Draws of each number of choices.", min=1)
    fixed: int = option(FIXED, "Users with as many choices or more are on the curve.")
    baselines: list[str] = option(
        [], "Scorer that reads no choices, for scale; repeat.", "--baseline"
    )
    majority: bool = option(False, "Also what most of the other users chose, for scale.")


def learning_curve(
    benchmark: str = flags.benchmark(..., "Pairs with an adapt split."),
    model: list[Path] = option(..., "Folder that palate train made; repeat.", "-m", "--model"),
    *,
    drawn: ShotOptions,
    devices: Devices,
    reading: DatedReading,
    mirrors: str | None = flags.MIRRORS,
    output: Path = flags.ROOT,
    picture: Path | None = flags.PICTURE,
    form: Form = flags.FORMAT,
) -> None:
    """Accuracy and concordance against choices per user, on one fixed set of users."""
    dated: dict[str, Any] = {"since": reading.since, "until": reading.until}
    dated |= {"mirrored": mirrors, "options": reading.options()}
    pairs = load_benchmark(benchmark, seed=devices.seed, **dated)
    how = {"root": output, "settings": devices.settings(), **vars(drawn)}
    with bars(default_session().ledger.progress) as display:
        advance = display.start(f"learning curves on {pairs.name}")
        curve = measure(pairs, model, progress=advance, **how)
    show_result(curve, form, picture)
