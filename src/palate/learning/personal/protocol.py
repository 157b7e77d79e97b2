"""The protocol of personal reward models: learn from many users, adapt to one, score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from palate.learning.personal.choices import Choices, Doubles, Floats
from palate.specs import load

GROUP = "palate.methods"
Options = Mapping[str, Any]
"""Of a method, by name."""
Seed = tuple[int, int]
"""The seed of a fit, and which of its starts it is for."""
States = Mapping[str, NDArray[np.float32]]
"""What is kept of users: named arrays whose first axis is the user."""


class Model(Protocol):
    """A fitted family of reward models, one per user state.

    Vectors come in scaled; scores are log-odds where `log_odds` says so: the difference of two
    responses' scores is the log-odds that the user prefers the first.
    """

    method: ClassVar[str]
    """Its name in `palate train NAME`."""
    paper: ClassVar[str]
    """Authors, year and where."""
    log_odds: ClassVar[bool]
    needs_prompts: ClassVar[bool]
    """True where a score also depends on the question's vector."""
    exact: ClassVar[bool]
    """True where a score does not depend on what is scored with it, to the last bit."""
    defaults: ClassVar[Options]
    """Options of `fit` and their values where none is given."""
    options: Options
    """What it was fitted with."""

    @classmethod
    def fit(cls, choices: Choices, *, seed: int = 0, **options: Any) -> Self:
        """Learn what users share. Raises `DataError` where nothing can be learnt."""

    def prior(self) -> States:
        """Return the state of one user of whom nothing is known."""

    def adapt(self, choices: Choices) -> States:
        """Return one state per user of `choices`, all in one job; no choices give the prior."""

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return scores (s × c) of slates' candidates (s × c × d), one user state a slate."""

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return what was learnt."""

    @classmethod
    def load(cls, tensors: Mapping[str, NDArray[Any]], options: Options) -> Self:
        """Return the model of what `tensors` gave."""


def method_of(name: str) -> type[Model]:
    """Return the class behind a method's name; raises `SpecError` with near misses."""
    found: type[Model] = load(GROUP, name)
    return found


def take(states: States, users: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
    """Return the states of these users, in this order."""
    return {name: array[users] for name, array in states.items()}


def repeated(prior: States, n: int) -> dict[str, NDArray[np.float32]]:
    """Return n copies of one user's state."""
    return {name: np.repeat(array, n, axis=0) for name, array in prior.items()}
