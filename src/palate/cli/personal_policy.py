"""palate train p-dpo: a language model with soft tokens per user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palate.cli import options as flags
from palate.cli.console import bars
from palate.cli.learnt_from import left_out_users, pairs_to_train
from palate.cli.personal import SplitToRead, choices_of
from palate.personal.p_dpo import USERS, Options, train_p_dpo
from palate.specs import Reference
from palate.training import Lora

DEFAULT = Options()


def train_policy(
    base: Annotated[str, typer.Option(help="Model to start from: hub, ./folder or pypi:PACKAGE.")],
    data: Annotated[str, typer.Option(help="File of pairs, or a benchmark's name.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="New folder for the model.")],
    unseen: Annotated[
        float, typer.Option(help="Share of users, drawn by the seed, that are not trained on.")
    ] = 0.0,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="User who is not trained on; may be repeated.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Optimiser steps; 0 saves the untrained start.")] = 200,
    seed: flags.Seed = 0,
    batch_pairs: Annotated[int, typer.Option(help="Choices a step.")] = 8,
    learning_rate: Annotated[float, typer.Option(help="Of the adapters, at its peak.")] = 5e-4,
    max_length: Annotated[int, typer.Option(help="Longest conversation in tokens.")] = 1024,
    tokens: Annotated[int, typer.Option(help="Soft tokens of a user.")] = DEFAULT.tokens,
    alpha: Annotated[
        float, typer.Option(help="Weight of the loss that knows the user.")
    ] = DEFAULT.alpha,
    beta: Annotated[float, typer.Option(help="Of DPO.")] = DEFAULT.beta,
    spread: Annotated[
        float, typer.Option(help="How far users may differ, in sizes of a word's vector.")
    ] = DEFAULT.spread,
    rate: Annotated[
        float, typer.Option(help="Learning rate of the soft tokens, in the same unit.")
    ] = DEFAULT.rate,
    rank: Annotated[int, typer.Option(help="Rank of the adapters; their alpha is twice it.")] = 8,
    split: SplitToRead = None,
    dtype: flags.Dtype = None,
    device: flags.Device = None,
    columns: flags.Map = None,
    skip_bad_rows: flags.SkipBadRows = False,
) -> None:
    """Train a language model with soft tokens per user (P-DPO), a reward for every token."""
    history = choices_of(pairs_to_train(data, split, columns, skip_bad_rows))
    left_out = left_out_users(history, data, leave_out, unseen, seed)
    history = {user: listed for user, listed in history.items() if user not in left_out}
    with bars() as shown:
        advance = shown.start(f"p-dpo on {sum(map(len, history.values())):,} choices")
        made = train_p_dpo(
            history,
            Reference.parse(base),
            output,
            options=Options(tokens, alpha, beta, spread, rate),
            steps=steps,
            seed=seed,
            batch_pairs=batch_pairs,
            learning_rate=learning_rate,
            max_length=max_length,
            lora=Lora(rank=rank, alpha=2 * rank),
            dtype=dtype,
            device=device,
            progress=lambda step, total, loss: advance(step, total),
        )
    tail = made.losses[-10:]
    typer.echo(
        f"{made.folder}: {made.steps} steps in {made.seconds:.0f} s on {made.n_seen:,} of "
        f"{made.n_choices:,} choices of {made.n_users:,} users"
        + (f", {len(left_out):,} users left out" if left_out else "")
        + (f" ({made.n_too_long:,} choices too long)" if made.n_too_long else "")
        + (f"; loss {made.losses[0]:.3f} → {sum(tail) / len(tail):.3f}" if tail else "")
    )
    typer.echo(f"states of the users trained on: {made.folder / USERS}")
    typer.echo(f"evaluate it with: palate evaluate -s personal:{made.folder} …")
