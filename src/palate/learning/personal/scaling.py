"""Vectors brought to one scale before any method sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.errors import DataError
from palate.learning.personal.choices import Choices, Floats

FLAT = 1e-6
"""A number that varies less than this over the training responses says nothing and becomes 0."""


class Scaling(NamedTuple):
    """φ → (φ − mean) · scale, so that each source's vectors have mean square length 1.

    Within a source every number has the same variance; so one ridge suits all, and a source of
    sixteen counts weighs as much as one of four thousand hidden states.
    """

    mean: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, table: Floats, widths: Sequence[int]) -> Scaling:
        """Measure on the training responses (m × d); `widths` are the sources'."""
        if sum(widths) != table.shape[1]:
            raise DataError(f"vectors of width {table.shape[1]} where {sum(widths)} is expected")
        rows = table.astype(np.float64)
        spread = rows.std(axis=0)
        each = np.concatenate([np.full(w, 1 / np.sqrt(w * len(widths))) for w in widths])
        scale = np.where(spread > FLAT, each / np.maximum(spread, FLAT), 0.0)
        return cls(rows.mean(axis=0).astype(np.float32), scale.astype(np.float32))

    def apply(self, table: Floats) -> Floats:
        """Return the scaled vectors; raises `DataError` for another width."""
        if table.shape[-1] != len(self.mean):
            raise DataError(
                f"vectors of width {table.shape[-1]}, and the model was trained on "
                f"{len(self.mean)}: another embedder?"
            )
        return np.asarray((table - self.mean) * self.scale, np.float32)

    def of_choices(self, choices: Choices) -> Choices:
        """Return choices with scaled vectors."""
        asked = None if choices.prompts is None else self.apply(choices.prompts)
        return replace(choices, features=self.apply(choices.features), prompts=asked)
