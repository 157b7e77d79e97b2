"""palate train: reward models from users' choices, planners from their rubrics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palate.benchmarks import load_benchmark
from palate.cli import options as flags
from palate.cli.console import bars
from palate.cli.learnt_from import pairs_to_train
from palate.specs import Reference
from palate.training import Lora, train_classifier, train_planner

train = typer.Typer(no_args_is_help=True, help="Train a reward model or a planner on users' data.")


@train.callback()
def _train() -> None:
    """Train a reward model or a planner on users' data."""


@train.command("classifier")
def train_a_classifier(
    base: Annotated[str, typer.Option(help="Model to start from: hub, ./folder or pypi:PACKAGE.")],
    data: Annotated[str, typer.Option(help="File of pairs, or a benchmark's name.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="New folder for the model.")],
    steps: Annotated[int, typer.Option(help="Optimiser steps; 0 saves the untrained start.")] = 60,
    seed: flags.Seed = 0,
    batch_pairs: Annotated[int, typer.Option(help="Pairs a step.")] = 8,
    learning_rate: Annotated[float, typer.Option(help="Peak of the schedule.")] = 5e-5,
    max_length: Annotated[int, typer.Option(help="Longest conversation in tokens.")] = 1024,
    split: Annotated[
        str | None, typer.Option(help="Split to train on; default adapt, where there is one.")
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="User whose pairs are not trained on; may be repeated.")
    ] = None,
    dtype: flags.Dtype = None,
    device: flags.Device = None,
    columns: flags.Map = None,
    skip_bad_rows: flags.SkipBadRows = False,
) -> None:
    """Train a Bradley–Terry reward model with a classification head through TRL."""
    pairs = pairs_to_train(data, split, columns, skip_bad_rows)
    with bars() as shown:
        advance = shown.start(f"training on {len(pairs.pairs):,} pairs")
        made = train_classifier(
            pairs.pairs,
            Reference.parse(base),
            output,
            steps=steps,
            seed=seed,
            batch_pairs=batch_pairs,
            learning_rate=learning_rate,
            max_length=max_length,
            dtype=dtype,
            device=device,
            leave_out=leave_out or (),
            progress=lambda step, total, loss: advance(step, total),
        )
    typer.echo(
        f"{made.folder}: {made.steps} steps in {made.seconds:.0f} s on {made.n_seen:,} of "
        f"{made.n_pairs:,} pairs ({made.n_too_long:,} over {max_length} tokens left out)"
        + (f"; loss {made.losses[0]:.3f} → {_last(made.losses):.3f}" if made.losses else "")
    )
    typer.echo(f"evaluate it with: palate evaluate -s classifier:{_as_reference(made.folder)} …")


@train.command("planner")
def train_a_planner(
    base: Annotated[str, typer.Option(help="Model to start from: hub, ./folder or pypi:PACKAGE.")],
    data: Annotated[str, typer.Option(help="File of rows with rubric aspects, or a benchmark.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="New folder for the model.")],
    not_in: Annotated[
        list[str] | None,
        typer.Option(help="Benchmark none of whose people may be trained on; may be repeated."),
    ] = None,
    steps: Annotated[int, typer.Option(help="Optimiser steps; 0 saves the untrained start.")] = 200,
    seed: flags.Seed = 0,
    batch_pairs: Annotated[int, typer.Option(help="Rows a step.")] = 8,
    learning_rate: Annotated[float, typer.Option(help="Peak of the schedule.")] = 5e-5,
    max_length: Annotated[int, typer.Option(help="Most tokens of prompt and aspects.")] = 2048,
    posts: Annotated[int, typer.Option(help="Posts of the profile that are read.")] = 10,
    rank: Annotated[int, typer.Option(help="Rank of the adapters.")] = 16,
    split: Annotated[
        str | None, typer.Option(help="Split to train on; default adapt, where there is one.")
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="User whose rows are not trained on; may be repeated.")
    ] = None,
    dtype: flags.Dtype = None,
    device: flags.Device = None,
    columns: flags.Map = None,
    skip_bad_rows: flags.SkipBadRows = False,
) -> None:
    """Train a planner: from question and profile to what this user expects of an answer."""
    pairs = pairs_to_train(data, split, columns, skip_bad_rows)
    evaluated = {name: load_benchmark(name).pairs for name in not_in or ()}
    with bars() as shown:
        advance = shown.start(f"training on {len(pairs.pairs):,} rows")
        made = train_planner(
            pairs.pairs,
            Reference.parse(base),
            output,
            steps=steps,
            seed=seed,
            batch_pairs=batch_pairs,
            learning_rate=learning_rate,
            max_length=max_length,
            posts=posts,
            lora=Lora(rank=rank, alpha=rank),
            dtype=dtype,
            device=device,
            leave_out=leave_out or (),
            not_in=evaluated,
            progress=lambda step, total, loss: advance(step, total),
        )
    typer.echo(
        f"{made.folder}: {made.steps} steps in {made.seconds:.0f} s on {made.n_seen:,} of "
        f"{made.n_pairs:,} rows ({made.n_without:,} without aspects or profile and "
        f"{made.n_too_long:,} over {max_length} tokens left out)"
        + (f"; loss {made.losses[0]:.3f} → {_last(made.losses):.3f}" if made.losses else "")
    )
    typer.echo(f"use it with: palate evaluate -c plan:{_as_reference(made.folder)} …")


def _last(losses: tuple[float, ...]) -> float:
    tail = losses[-10:]
    return sum(tail) / len(tail)


def _as_reference(folder: Path) -> str:
    text = str(folder)
    return text if text.startswith(("/", ".", "~")) else f"./{text}"
