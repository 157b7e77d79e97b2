"""The base of models on vectors: they are the arrays that they learnt, and their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from palate.learning.personal.choices import Doubles, Floats
from palate.learning.personal.products import slate_dots
from palate.learning.personal.protocol import Model, Options, States


class ArrayModel(Model, Protocol):
    """A dataclass of float64 arrays, saved under the names of its fields, and `options`."""

    log_odds: ClassVar[bool] = True
    needs_prompts: ClassVar[bool] = False
    exact: ClassVar[bool] = True

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return every array that was learnt."""
        return {name: array for name, array in vars(self).items() if name != "options"}

    @classmethod
    def load(cls, tensors: Mapping[str, NDArray[Any]], options: Options) -> Self:
        """Return the model of what `tensors` gave."""
        arrays = {name: array.astype(np.float64) for name, array in tensors.items()}
        return cls(**{**arrays, "options": options})

    def changed(self, **fields: Any) -> Self:
        """Return this model with other values in some fields."""
        return type(self)(**{**vars(self), **fields})


class LinearModel(ArrayModel, Protocol):
    """A model in which a user's reward is a product with one vector."""

    def heads_of(self, states: States) -> Doubles:
        """Return the vector of each state (users × d)."""

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return the products."""
        del prompts
        return slate_dots(candidates, self.heads_of(states))
