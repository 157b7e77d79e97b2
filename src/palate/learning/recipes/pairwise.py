"""The frame of recipes that learn from pairs alone: encode, fit, and write a folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from palate.data import content_hash
from palate.engines import ChatTemplate
from palate.errors import DataError
from palate.learning.recipes.base import Kind, load_base
from palate.learning.recipes.fitting import Progress, Recipe, fit
from palate.learning.recipes.output import TrainedModel, new_folder
from palate.learning.recipes.saving import named, save
from palate.learning.recipes.token_pairs import TokenPair, keep_users
from palate.learning.recipes.tuning import EncodedChoice, Lora
from palate.models import resolve
from palate.records import PreferencePair, Settings
from palate.specs import Reference


def train_on_pairs(
    method: str,
    pairs: Sequence[PreferencePair],
    base: Reference,
    output: Path,
    recipe: Recipe,
    *,
    kind: Kind,
    encode: Callable[[PreferencePair, ChatTemplate], TokenPair | EncodedChoice],
    trainer: Literal["Reward", "DPO"],
    epochs: int | None = None,
    beta: float | None = None,
    lora: Lora | None = None,
    device: str,
    leave_out: Collection[str],
    progress: Progress | None,
    settings: Settings | None,
) -> TrainedModel:
    """Train by one of TRL's trainers on the pairs that fit, and save the model with its facts.

    `epochs` sets the steps by the number of pairs that fit. Raises as `train_classifier`.
    """
    usable = keep_users(pairs, leave_out)
    with new_folder(output) as folder:
        source = resolve(base)
        start = load_base(source, str(base), recipe.seed, kind, settings)
        limit = recipe.longest(start.model)
        encoded = [(pair, encode(pair, start.template)) for pair in usable]
        fitting = [(pair, row) for pair, row in encoded if row.width <= limit]
        if not fitting:
            raise DataError(f"no pair to train on: each of {len(usable)} is over {limit} tokens")
        if epochs is not None:
            recipe = replace(recipe, steps=-(-epochs * len(fitting) // recipe.batch_pairs))
        rows, scratch = [row for _, row in fitting], folder.parent / "trainer"
        model, losses, seconds = fit(
            trainer,
            start,
            rows,
            recipe,
            device=device,
            scratch=scratch,
            lora=lora,
            beta=beta,
            progress=progress,
        )
        too_long = len(usable) - len(fitting)
        facts = {
            "base": {"reference": named(base), "content": source.content},
            "data": content_hash(pair for pair, _ in fitting),
            "n_pairs": len(fitting),
            "n_too_long": too_long,
            "n_users_left_out": len(set(leave_out)),
            **start.template.source.details,
        }
        more: Mapping[str, Any] = {} if beta is None else {"beta": beta}
        more = more if lora is None else {**more, "lora": asdict(lora)}
        save(model, start.tokenizer, folder, {"kind": method, **facts, **more, **asdict(recipe)})
    return TrainedModel(
        folder=output,
        n_pairs=len(fitting),
        n_seen=min(len(fitting), recipe.steps * recipe.batch_pairs),
        n_too_long=too_long,
        n_users=len({pair.user_id for pair, _ in fitting}),
        n_users_left_out=len(set(leave_out)),
        steps=recipe.steps,
        seconds=seconds,
        losses=losses,
        notes=start.notes,
    )
