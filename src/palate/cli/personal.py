"""palate train METHOD, palate adapt: reward models that learn each user's taste."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from palate.cli.compute_options import Devices
from palate.cli.console import bars
from palate.cli.flatten import flatten_options
from palate.cli.training_data import NewModel, RowsToRead, UntrainedUsers, choices_of, learn
from palate.errors import UsageError
from palate.learning import adapt as adapt_to
from palate.session import default_session


def trainer(method: str) -> Callable[..., None]:
    """Return the command that trains by a registered method."""

    @flatten_options
    def run(
        model: NewModel,
        embedder: Annotated[
            list[str],
            typer.Option(help="What turns responses into vectors: a model, style, api:…; repeat."),
        ],
        *,
        given: Annotated[
            list[str] | None, typer.Option("--set", help="Option of the method, name=value.")
        ] = None,
        users: UntrainedUsers,
        rows: RowsToRead,
        devices: Devices,
    ) -> None:
        options = _read(given or [])
        trained = learn(method, model, rows, users, devices, embedders=embedder, options=options)
        typer.echo(f"{model.output}: {method} from {choices_of(trained)}")
        chosen = ", ".join(f"{name} {value}" for name, value in trained.options.items())
        typer.echo(f"options: {chosen}" if chosen else "no options")

    run.__doc__ = f"Train {method} on users' choices."
    return run


@flatten_options
def adapt(
    model: Annotated[Path, typer.Argument(help="Folder that palate train made.")],
    choices: Annotated[str, typer.Option(help="File of the users' choices, or a benchmark.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File for the states.")],
    *,
    reference: Annotated[
        str | None, typer.Option(help="Where the model lies that p-dpo started from, if moved.")
    ] = None,
    rows: RowsToRead,
    devices: Devices,
) -> None:
    """Learn a state for every user of a file, all in one job."""
    settings, pairs = devices.settings(), rows.load(choices)
    with bars(default_session().ledger.progress) as display:
        states = adapt_to(
            model,
            pairs,
            output,
            reference=reference,
            split=rows.split,
            settings=settings,
            progress=display.start(f"{len(pairs.pairs):,} choices"),
        )
    n = len(states.keys)
    typer.echo(f"{output}: {n:,} users, {states.bytes_each:,.0f} bytes of state each")
    if states.n_too_long:
        typer.echo(f"{states.n_too_long:,} choices left out: too long for the model")
    typer.echo(f"use it with: palate evaluate -s 'personal:{model}?users={output}' …")


def _read(given: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {text}: expected name=value")
        try:
            options[name] = float(value)
        except ValueError:
            options[name] = value
    return options
