"""palate train METHOD, palate adapt: reward models that learn each user's taste."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from palate.benchmarks import Dataset
from palate.cli import options as flags
from palate.cli.console import bars
from palate.cli.learnt_from import left_out_users, pairs_to_train
from palate.errors import UsageError
from palate.personal import Trained, UserStates, fit
from palate.personal.p_dpo import PersonalPolicy, is_policy
from palate.personal.p_dpo import adapt as adapt_policy
from palate.records import Choice, Settings, user_key
from palate.specs import registered
from palate.training import new_folder

Data = Annotated[str, typer.Option(help="File of pairs, or a benchmark's name.")]
SplitToRead = Annotated[
    str | None, typer.Option(help="Split to read; default adapt, where there is one.")
]

Learner = Callable[[Mapping[str, Sequence[Choice]], Callable[[int, int], None]], UserStates]
"""From (key → choices, progress) to states."""


def add_methods(train: typer.Typer) -> None:
    """Add one command per registered method."""
    for name in registered("palate.methods"):
        train.command(name, help=f"Train {name} on users' choices.")(_trainer(name))


def _trainer(method: str) -> Callable[..., None]:
    def run(
        data: Data,
        embedder: Annotated[
            list[str],
            typer.Option(help="What turns responses into vectors: a model, style, api:…; repeat."),
        ],
        output: Annotated[Path, typer.Option("-o", "--output", help="New folder for the model.")],
        given: Annotated[
            list[str] | None, typer.Option("--set", help="Option of the method, name=value.")
        ] = None,
        unseen: Annotated[
            float, typer.Option(help="Share of users, drawn by the seed, that are not trained on.")
        ] = 0.0,
        leave_out: Annotated[
            list[str] | None, typer.Option(help="User who is not trained on; may be repeated.")
        ] = None,
        seed: flags.Seed = 0,
        split: SplitToRead = None,
        dtype: flags.Dtype = None,
        device: flags.Device = None,
        columns: flags.Map = None,
        skip_bad_rows: flags.SkipBadRows = False,
    ) -> None:
        pairs = pairs_to_train(data, split, columns, skip_bad_rows)
        history = choices_of(pairs)
        left_out = left_out_users(history, data, leave_out, unseen, seed)
        history = {user: listed for user, listed in history.items() if user not in left_out}
        settings = flags.make_settings(seed, dtype, device)
        with new_folder(output) as folder, bars() as shown:
            advance = shown.start(f"{method} on {sum(map(len, history.values())):,} choices")
            made = fit(
                method, history, embedder, settings, options=_read(given or []), progress=advance
            )
            made.save(folder)
        typer.echo(
            f"{output}: {method} from {made.facts['n_choices']:,} choices of {len(history):,} users"
            + (f", {len(left_out):,} users left out" if left_out else "")
        )
        chosen = ", ".join(f"{name} {value}" for name, value in made.model.options.items())
        typer.echo(f"options: {chosen}" if chosen else "no options")

    return run


def adapt(
    model: Annotated[Path, typer.Argument(help="Folder that palate train made.")],
    choices: Annotated[str, typer.Option(help="File of the users' choices, or a benchmark.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File for the states.")],
    reference: Annotated[
        str | None, typer.Option(help="Where the model lies that p-dpo started from, if moved.")
    ] = None,
    split: SplitToRead = None,
    seed: flags.Seed = 0,
    dtype: flags.Dtype = None,
    device: flags.Device = None,
    columns: flags.Map = None,
    skip_bad_rows: flags.SkipBadRows = False,
) -> None:
    """Learn a state for every user of a file, all in one job."""
    if output.suffix != ".safetensors":
        raise UsageError(f"output {output}: a file of states ends in .safetensors")
    settings = flags.make_settings(seed, dtype, device)
    learn = _learner(model, settings, reference)
    history = choices_of(pairs_to_train(choices, split, columns, skip_bad_rows))
    with bars() as shown:
        advance = shown.start(f"choices of {len(history):,} users")
        states = learn({user_key(user): listed for user, listed in history.items()}, advance)
    states.save(output)
    typer.echo(f"{output}: {len(history):,} users, {states.bytes_each:,.0f} bytes of state each")
    if states.n_too_long:
        typer.echo(f"{states.n_too_long:,} choices left out: too long for the model")
    typer.echo(f"use it with: palate evaluate -s 'personal:{model}?users={output}' …")


def _learner(model: Path, settings: Settings, reference: str | None) -> Learner:
    if is_policy(model):
        policy = PersonalPolicy.load(model)
        base = policy.reference(reference)
        return lambda history, advance: adapt_policy(policy, history, settings, base, advance)
    if reference is not None:
        raise UsageError(f"--reference {reference}: {model} has no reference model")
    trained = Trained.load(model)
    features = trained.features(settings)
    return lambda history, advance: trained.adapt(history, features, advance)


def choices_of(pairs: Dataset) -> dict[str, list[Choice]]:
    """Return the choices of each user, in the order of the data."""
    found: dict[str, list[Choice]] = {}
    for pair in pairs.pairs:
        choice = Choice(question=pair.text, chosen=pair.chosen, rejected=pair.rejected)
        found.setdefault(pair.user_id, []).append(choice)
    return found


def _read(given: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {text}: expected name=value")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = value
    return found
