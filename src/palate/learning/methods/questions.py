"""The vector of a question cut to the principal components of the training questions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from palate.errors import DataError
from palate.learning.personal.choices import Choices, Doubles, Floats
from palate.learning.personal.products import dots
from palate.learning.personal.projection import pieces


class Questions(NamedTuple):
    """φ(x) → (1, components · (φ(x) − mean)), the second part of mean square length 1."""

    mean: Doubles
    components: Doubles
    """c × d, one scale for all: the first components stay the longest."""

    @classmethod
    def of(cls, prompts: Floats, count: int) -> Questions:
        """Measure on the training questions (m × d); at most `count` components are kept."""
        mean = prompts.mean(axis=0, dtype=np.float64)
        scatter = np.zeros((prompts.shape[1], prompts.shape[1]))
        for piece in pieces(*prompts.shape):
            apart = prompts[piece] - mean
            scatter += apart.T @ apart
        sizes, directions = np.linalg.eigh(scatter / len(prompts))
        kept = directions[:, ::-1][:, :count].T
        total = sizes[::-1][:count].sum()
        return cls(mean, kept / np.sqrt(total) if total > 0 else np.zeros_like(kept))

    @property
    def width(self) -> int:
        """Numbers of a question as read, the leading 1 counted."""
        return 1 + len(self.components)

    def apply(self, prompts: Floats) -> Doubles:
        """Return questions (m × d) as read (m × width); raises `DataError` for another width."""
        if prompts.shape[-1] != len(self.mean):
            raise DataError(
                f"questions of width {prompts.shape[-1]}, and the model was trained on "
                f"{len(self.mean)}: another embedder?"
            )
        found = np.ones((len(prompts), self.width))
        for piece in pieces(*prompts.shape):
            found[piece, 1:] = dots(prompts[piece] - self.mean, self.components)
        return found

    def of_choices(self, choices: Choices) -> Doubles:
        """Return every choice's question as read (n × width)."""
        prompts = given(choices.prompts)
        found = np.ones((len(choices), self.width))
        for piece in pieces(len(choices), choices.width):
            found[piece] = self.apply(prompts[choices.chosen[piece]])
        return found


def given(prompts: Floats | None) -> Floats:
    """Return the questions' vectors; raises `DataError` where they are missing."""
    if prompts is None:
        raise DataError("the questions' vectors are missing")
    return prompts
