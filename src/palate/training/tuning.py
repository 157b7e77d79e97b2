"""Low-rank adapters on a causal model through TRL's SFTTrainer and PEFT, merged at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from palate.errors import UsageError
from palate.training.fitting import Progress, Recipe, config, one_device, run, watch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from palate.training.base import Base

IGNORED = -100
"""The label of a token that no loss is taken of."""


@dataclass(frozen=True)
class Lora:
    """W + (alpha / rank) · B A on every linear layer but the output's (arXiv 2106.09685)."""

    rank: int = 16
    alpha: int = 16
    dropout: float = 0.05

    def __post_init__(self) -> None:
        """Refuse what cannot be meant; raises `UsageError`."""
        for name, holds, expected in (
            ("rank", self.rank >= 1, "1 or more"),
            ("alpha", self.alpha >= 1, "1 or more"),
            ("dropout", 0 <= self.dropout < 1, "0 or more and below 1"),
        ):
            if not holds:
                raise UsageError(f"lora: {name}={getattr(self, name)}: expected {expected}")


class Written(NamedTuple):
    """A prompt and the reply that is to be learned, which starts at `start`."""

    ids: tuple[int, ...]
    start: int

    @property
    def width(self) -> int:
        """Tokens of both."""
        return len(self.ids)

    @property
    def labels(self) -> list[int]:
        """The reply's tokens; the prompt's are ignored."""
        return [IGNORED] * self.start + list(self.ids[self.start :])


def tune(
    base: Base,
    batches: Sequence[Sequence[Written]],
    recipe: Recipe,
    lora: Lora,
    *,
    device: str,
    scratch: Path,
    progress: Progress | None = None,
) -> tuple[Any, tuple[float, ...]]:
    """Train adapters, one step a batch; return the model with them merged, and the losses.

    The loss of a step is the mean of -log p over the replies' tokens of its batch, before the step
    is taken.

    Raises:
        UsageError: where TRL or PEFT is not installed or several accelerators are visible.
        ResourceError: where memory runs out.
    """
    try:
        import datasets
        from peft import LoraConfig
        from trl import SFTConfig, SFTTrainer
    except ImportError as error:
        raise UsageError("training needs pip install 'palate[train]'") from error
    one_device(device)
    rows = [row for batch in batches for row in batch]
    columns = {"input_ids": [list(r.ids) for r in rows], "labels": [r.labels for r in rows]}
    losses: list[float] = []
    trainer = SFTTrainer(
        model=base.model,
        args=config(SFTConfig, recipe, device, scratch),
        train_dataset=datasets.Dataset.from_dict(columns),
        processing_class=base.tokenizer,
        callbacks=[watch(losses, recipe.steps, progress)],
        peft_config=LoraConfig(
            r=lora.rank,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        ),
    )
    run(trainer, recipe)
    return trainer.model.merge_and_unload().to("cpu"), tuple(losses)
