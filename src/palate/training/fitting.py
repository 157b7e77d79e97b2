"""TRL's RewardTrainer on batches of token ids, and what its trainers share here."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palate.errors import ResourceError, UsageError
from palate.models import import_torch, import_transformers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from palate.training.base import Base
    from palate.training.rows import Row

Progress = Callable[[int, int, float], None]
MEMORY = ("out of memory", "not enough memory", "can't allocate memory")


@dataclass(frozen=True)
class Recipe:
    """What a training run does; written into the model's folder."""

    steps: int
    seed: int
    batch_pairs: int
    learning_rate: float
    warmup: float
    max_length: int
    dtype: str

    def __post_init__(self) -> None:
        """Refuse what cannot be meant; raises `UsageError`."""
        for name, holds, expected in (
            ("steps", self.steps >= 0, "0 or more"),
            ("batch_pairs", self.batch_pairs >= 1, "1 or more"),
            ("learning_rate", 0 < self.learning_rate < 1, "a number between 0 and 1"),
            ("warmup", 0 <= self.warmup < 1, "a share of the steps, 0 or more and below 1"),
            ("max_length", self.max_length >= 2, "2 tokens or more"),
            ("dtype", self.dtype in {"float32", "bfloat16"}, "float32 or bfloat16"),
        ):
            if not holds:
                raise UsageError(f"training: {name}={getattr(self, name)}: expected {expected}")


def fit(
    base: Base,
    batches: Sequence[Sequence[Row]],
    recipe: Recipe,
    *,
    device: str,
    scratch: Path,
    progress: Progress | None = None,
) -> tuple[float, ...]:
    """Train the base in place, one step a batch, and return the losses.

    The loss of a step is the mean of -log sigmoid(r_chosen - r_rejected) over its batch, before
    the step is taken.

    Raises:
        UsageError: where TRL is not installed or several accelerators are visible.
        ResourceError: where memory runs out.
    """
    try:
        import datasets
        from trl import RewardConfig, RewardTrainer
    except ImportError as error:
        raise UsageError("training needs pip install 'palate[train]'") from error
    one_device(device)
    rows = [row for batch in batches for row in batch]
    columns = {"chosen_ids": [r.chosen for r in rows], "rejected_ids": [r.rejected for r in rows]}
    losses: list[float] = []
    trainer = RewardTrainer(
        model=base.model,
        args=config(RewardConfig, recipe, device, scratch),
        train_dataset=datasets.Dataset.from_dict(columns),
        processing_class=base.tokenizer,
        callbacks=[watch(losses, recipe.steps, progress)],
    )
    run(trainer, recipe)
    base.model.to("cpu")
    return tuple(losses)


def one_device(device: str) -> None:
    """Raise `UsageError` where several accelerators are visible."""
    if device != "cpu" and import_torch().accelerator.device_count() > 1:
        raise UsageError("training uses one device; show it only one, as in CUDA_VISIBLE_DEVICES=0")


def run(trainer: Any, recipe: Recipe) -> None:
    """Take a trainer's steps, silently; raises `ResourceError` where memory runs out."""
    trainer.remove_callback(import_transformers().PrinterCallback)
    try:
        trainer.train()
    except RuntimeError as error:
        if not any(sign in str(error).lower() for sign in MEMORY):
            raise
        raise ResourceError(
            f"out of memory at {recipe.batch_pairs} pairs a step; lower batch_pairs or max_length"
        ) from error


def config(kind: Any, recipe: Recipe, device: str, scratch: Path) -> Any:
    """Return a recipe as the configuration of one of TRL's trainers."""
    cpu = device == "cpu"
    options: dict[str, Any] = {
        "output_dir": str(scratch),
        "max_steps": recipe.steps,
        "per_device_train_batch_size": recipe.batch_pairs,
        "train_sampling_strategy": "sequential",  # the order was made by `in_batches`
        "learning_rate": recipe.learning_rate,
        "lr_scheduler_type": "linear",
        "warmup_steps": round(recipe.warmup * recipe.steps),
        "seed": recipe.seed,
        "bf16": recipe.dtype == "bfloat16",  # autocast: the weights stay in float32
        "use_cpu": cpu,
        "gradient_checkpointing": not cpu,  # there memory is short, here time is
        "max_length": None,  # what is longer was counted and left out before
        "dataloader_pin_memory": not cpu,
        "disable_tqdm": True,
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
    }
    with warnings.catch_warnings():  # TRL's own default still has the older name of an option
        warnings.simplefilter("ignore", FutureWarning)
        return kind(**options)


def watch(losses: list[float], steps: int, progress: Progress | None) -> Any:
    """Return a callback that notes each step's loss."""

    class Watch(import_transformers().TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            logs = more.get("logs") or {}
            if "loss" in logs:
                losses.append(float(logs["loss"]))
                if progress is not None:
                    progress(len(losses), steps, losses[-1])

    return Watch()
