"""Shards: every N-th batch of a plan, for processes that share a folder and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from palate.errors import UsageError
from palate.execution.plan import WorkPlan

SHARDS = "shards"
"""Under a root of runs: what shards journal."""


class Shard(NamedTuple):
    """The batches I, I+N, I+2N, … of every pass."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `I/N`; raises `UsageError` unless 1 ≤ I ≤ N.

        >>> Shard.parse("2/8")
        Shard(number=2, of=8)
        """
        match = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"--shard {text}: expected I/N with I from 1 to N, such as 1/8")
        return cls(int(match[1]), int(match[2]))

    def folder(self, root: Path) -> Path:
        """Return where its journals lie, in the same folders as below the root itself."""
        return root / SHARDS / f"{self.number}-of-{self.of}"

    def groups(self, plan: WorkPlan) -> NDArray[np.bool_]:
        """Return which groups of a plan it computes."""
        batches = np.arange(len(plan.cuts) - 1) % self.of == self.number - 1
        return np.repeat(batches, np.diff(plan.cuts))
