"""Methods that start from a language model, under the entry point group `palate.recipes`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from palate.learning.recipes.output import TrainedModel
from palate.learning.recipes.tuning import Lora
from palate.records import PreferencePair
from palate.specs import Reference

GROUP = "palate.recipes"
STEPS = ("steps", "batch_pairs", "learning_rate", "warmup", "max_length")
"""Options of every method that trains by steps."""


@dataclass(frozen=True)
class BaseTask:
    """A model to train from a base: rows, where it goes, and what the caller set."""

    pairs: Sequence[PreferencePair]
    base: Reference
    output: Path
    leave_out: Collection[str]
    options: Mapping[str, Any]
    """The method's own, by name; what is not set has the method's default."""
    common: Mapping[str, Any] = field(default_factory=dict)
    """Seed, dtype, device, settings and progress, named as all recipes name them."""

    def chosen(self, *names: str) -> dict[str, Any]:
        """Return those of the options that are set, and what is common to all methods."""
        return {name: self.options[name] for name in names if name in self.options} | {
            **self.common
        }

    def lora(self, *, scale: int, dropout: float | None = None) -> Lora | None:
        """Return adapters of the `rank` that is set; None leaves the method's own."""
        rank = self.options.get("rank")
        if rank is None:
            return None
        given = {} if dropout is None else {"dropout": dropout}
        return Lora(rank=rank, alpha=scale * rank, **given)


class BaseMethod(NamedTuple):
    """A method that starts from a language model."""

    options: tuple[str, ...]
    """Names of its options, those of the steps included."""
    train: Callable[[BaseTask], TrainedModel]
