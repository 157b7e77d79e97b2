"""TRL's trainers on batches of token ids, and what they share here."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypedDict

from palate.engines.local.memory import within_memory
from palate.errors import UsageError, needing
from palate.learning.recipes.base import Base
from palate.learning.recipes.token_pairs import TokenPair, in_batches
from palate.learning.recipes.tuning import EncodedChoice, Lora, TrainingExample, collate
from palate.models import choose_dtype, import_torch, import_transformers, merge

Progress = Callable[[int, int, float], None]
AT_ONCE = 8
"""Most pairs of one pass where a step's gradient is the mean of several passes."""


class TrainingOptions(TypedDict, total=False):
    """What training by steps may be told; what is not told is the method's default."""

    steps: int
    """Of the optimiser; 0 saves the untrained start."""
    seed: int
    """Of what is drawn before the first step, and of the order of the rows."""
    batch_pairs: int
    """Rows a step."""
    learning_rate: float
    """Its peak."""
    warmup: float
    """Share of the steps, in [0, 1)."""
    max_length: int
    """Most tokens of a row as the model reads it."""
    dtype: str | None
    """bfloat16 (the default) or float32."""


@dataclass(frozen=True)
class Recipe:
    """What a training run does; written into the model's folder."""

    steps: int
    seed: int = 0
    batch_pairs: int = 8
    learning_rate: float = 5e-5
    warmup: float = 0.1
    max_length: int = 1024
    dtype: str = "bfloat16"

    @classmethod
    def of(cls, device: str, told: TrainingOptions, **defaults: float) -> Self:
        """Return what was told over a method's defaults; raises `UsageError` as the class does."""
        dtype = str(choose_dtype(told.get("dtype") or cls.dtype, device)).removeprefix("torch.")
        fields: dict[str, Any] = {**defaults, **told, "dtype": dtype}
        return cls(**fields)

    def longest(self, model: Any) -> int:
        """Return how many tokens of a row this model reads."""
        return min(
            self.max_length, getattr(model.config, "max_position_embeddings", self.max_length)
        )

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
    kind: Literal["Reward", "SFT", "DPO"],
    base: Base,
    rows: Sequence[TokenPair | TrainingExample | EncodedChoice],
    recipe: Recipe,
    *,
    device: str,
    scratch: Path,
    lora: Lora | None = None,
    beta: float | None = None,
    progress: Progress | None = None,
) -> tuple[Any, tuple[float, ...], float]:
    """Train by one of TRL's trainers; return the model, on the CPU, the losses, and the seconds.

    The loss of a step is that of its batch before the step is taken: the mean of
    -log sigmoid(r_chosen - r_rejected), or of -log p over the replies' tokens. Of `DPO` r is `beta`
    times log p of a reply, without a reference model. With `lora` adapters are trained, and merged
    at the end. Without steps the base comes back.

    Raises:
        UsageError: where TRL or PEFT is not installed or several accelerators are visible.
        ResourceError: where memory runs out.
    """
    if not recipe.steps:
        return base.model, (), 0.0
    datasets, peft, trl = import_training()
    one_device(device)
    began = time.monotonic()
    losses: list[float] = []
    batches = in_batches(rows, recipe.batch_pairs, recipe.steps, recipe.seed)
    columns = [row.columns for batch in batches for row in batch]
    arguments = config(getattr(trl, f"{kind}Config"), recipe, device, scratch)
    trainer_class, more = getattr(trl, f"{kind}Trainer"), {}
    if kind == "DPO":
        arguments.beta, arguments.precompute_ref_log_probs = beta, True
        arguments.remove_unused_columns = False
        n = recipe.batch_pairs
        once = next(k for k in range(min(n, AT_ONCE), 0, -1) if n % k == 0)
        arguments.per_device_train_batch_size = once
        arguments.gradient_accumulation_steps = n // once
        trainer_class, more = (
            reading_ids(trainer_class),
            {"data_collator": collate(base.tokenizer.pad_token_id)},
        )
    trainer = trainer_class(
        model=base.model,
        args=arguments,
        train_dataset=datasets.Dataset.from_list(columns),
        processing_class=base.tokenizer,
        callbacks=[watch(losses, recipe.steps, progress)],
        peft_config=None if lora is None else lora.config(peft),
        **more,
    )
    run(trainer, recipe)
    model = base.model if lora is None else merge(trainer.model)
    return model.to("cpu"), tuple(losses), time.monotonic() - began


def reading_ids(trainer: Any) -> Any:
    """Return TRL's DPOTrainer for rows that come as ids, with the reference's sums.

    TRL 1.16 computes those sums anew even where a data set has them.
    """

    class ReadingIds(trainer):  # type: ignore[misc]
        def _prepare_dataset(self, dataset: Any, *given: Any, **more: Any) -> Any:
            return dataset

        def _precompute_ref_logps(self, dataset: Any, *given: Any, **more: Any) -> Any:
            return dataset

    return ReadingIds


def import_training() -> tuple[Any, Any, Any]:
    """Import datasets, PEFT and TRL; raises `UsageError` with what to install."""
    with needing("training needs", "train"):
        import datasets
        import peft
        import trl
    return datasets, peft, trl


def one_device(device: str) -> None:
    """Raise `UsageError` where several accelerators are visible."""
    if device != "cpu" and import_torch().accelerator.device_count() > 1:
        raise UsageError("training uses one device; show it only one, as in CUDA_VISIBLE_DEVICES=0")


def run(trainer: Any, recipe: Recipe) -> None:
    """Take a trainer's steps, silently; raises `ResourceError` where memory runs out."""
    trainer.remove_callback(import_transformers().PrinterCallback)
    with within_memory(
        f"out of memory at {recipe.batch_pairs} pairs a step; lower batch_pairs or max_length"
    ):
        trainer.train()


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
