"""A model folder that appears whole or not at all, and what making it took."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palate.errors import UsageError, writing
from palate.files import whole_folder


@dataclass(frozen=True)
class TrainedModel:
    """A trained model on disk, and what it took."""

    folder: Path
    n_pairs: int
    """Pairs that training could draw from; of a planner, rows."""
    n_seen: int
    """Pairs that were trained on at least once: fewer, where steps times batch_pairs is less."""
    n_too_long: int
    """Pairs left out because they do not fit the model's window or `max_length`."""
    n_users: int
    """Users whose pairs these are."""
    n_users_left_out: int = 0
    n_without: int = 0
    """Of a planner: rows left out because they have no rubric aspect or no post."""
    steps: int = 0
    """Of the optimiser; 0 for methods that are solved."""
    seconds: float = 0.0
    """Spent on the steps, without loading and saving."""
    losses: tuple[float, ...] = ()
    """Of each step's batch, before the step."""
    notes: tuple[str, ...] = ()
    """What was said while the base was loaded."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of a method on vectors: its options, those chosen from the data included."""


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give an unfinished folder beside the target; it becomes the target when the block ends well.

    Raises:
        UsageError: if the target is there and not empty, or cannot be written.
        ResourceError: if it cannot be put in place at the end.
    """
    target = target.expanduser().absolute()
    with contextlib.ExitStack() as stack:
        with writing(f"output {target}", UsageError):
            if target.exists() and (not target.is_dir() or any(target.iterdir())):
                raise UsageError(f"output {target}: exists already; name a new or an empty folder")
            unfinished = stack.enter_context(whole_folder(target))
        yield unfinished
        with writing(f"output {target}"):
            stack.close()
