"""The base of VPL and GPO: a global head, and a network that reads a user's choices in one pass.

score = w·φ + r(φ; state). w is the Bradley–Terry head of all users, and the network learns what it
leaves over. r is 0 before the first step, and that network is kept where no other predicts
held-out users better: a world without personal differences costs nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from palate.errors import DataError
from palate.learning.methods.bradley_terry import choose_ridge, fit_head
from palate.learning.methods.episodes import Network, Padded, pad, train
from palate.learning.personal.choices import Choices, Doubles, Floats, Whole, batches
from palate.learning.personal.folds import FOLDS, folds
from palate.learning.personal.options import read_options
from palate.learning.personal.protocol import Model, Options, States, repeated
from palate.learning.solvers.layers import Arrays, Parameters
from palate.learning.solvers.threads import one_blas_thread
from palate.models import import_torch
from palate.seeding import rng

if TYPE_CHECKING:
    import torch

NUMBERS = 2**24
"""Float32 numbers held at a time (64 MiB)."""


class Amortised(Network, Model):
    """A family of user states that an encoder computes; nothing is fitted to a new user."""

    state: ClassVar[str]
    """The name of the state's one array."""
    log_odds: ClassVar[bool] = True
    needs_prompts: ClassVar[bool] = False
    exact: ClassVar[bool] = False

    def __init__(self, head: Doubles, size: float, parts: Parameters, options: Options) -> None:
        self.head, self.size, self.parts, self.options = head, size, parts, options

    @classmethod
    @abstractmethod
    def arrays(cls, width: int, options: Options, stream: np.random.Generator) -> Arrays:
        """Return the network's first parameters, under which every reward is 0."""

    @classmethod
    def fit(cls, choices: Choices, *, seed: int = 0, **options: Any) -> Self:
        """Fit w, then the network on what w leaves over, by episodes.

        In training a choice's margin is that of a head that has not seen its question, so that the
        network learns from the same leftovers that it will meet later. Raises `DataError` without
        a choice.
        """
        torch, given = import_torch(), read_options(cls, options)
        if not len(choices):
            raise DataError("no choice to learn from")
        with one_blas_thread(choices.differences.size):
            ridge = given["ridge"] or choose_ridge(choices, seed)
            head, stream = fit_head(choices, ridge), rng(cls.method, seed)
            arrays = cls.arrays(choices.width, given, stream)
            margins = _margins(choices, ridge, stream)
        parts = {name: torch.from_numpy(array) for name, array in arrays.items()}
        model = cls(head, _size(choices), parts, {**given, "ridge": ridge})
        train(model, choices, margins, given, stream)
        return model

    def prior(self) -> States:
        """Return what the encoder makes of no choice."""
        nothing = Choices(
            np.zeros((1, len(self.head)), np.float32), *(np.zeros(0, np.int64),) * 3, users=1
        )
        return {self.state: self._encoded(nothing, nothing.rows_by_user())}

    def adapt(self, choices: Choices) -> States:
        """Return one state per user, by one pass; of more than `most` choices the last ones count.

        Users with equally many choices go together, so little is padded.
        """
        rows = [own[-self.options["most"] :] for own in choices.rows_by_user()]
        counts = np.array([len(own) for own in rows], np.int64)
        found = repeated(self.prior(), choices.users)
        # A choice takes its vectors, some hidden layers and its attention to every other.
        each = 2 * choices.width + 16 * self.options["hidden"] + 8 * int(counts.max(initial=0))
        for users in batches(counts, each, NUMBERS):
            found[self.state][users] = self._encoded(choices, [rows[user] for user in users])
        return found

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return w·φ + r(φ; state)."""
        del prompts
        torch = import_torch()
        scores = np.asarray(candidates.astype(np.float64) @ self.head)
        each = candidates[:1].size + candidates.shape[1] * 8 * self.options["hidden"]
        step = max(1, NUMBERS // (each + 4 * states[self.state][:1].size + 1))
        with torch.inference_mode():
            for first in range(0, len(candidates), step):
                some = slice(first, first + step)
                state, shown = (
                    torch.from_numpy(np.ascontiguousarray(array[some], np.float32))
                    for array in (states[self.state], candidates)
                )
                scores[some] += self.reward(state, shown).numpy()
        return scores

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the head, the size of a difference, and the network's parameters."""
        network = {f"network.{name}": part.numpy() for name, part in self.parts.items()}
        return {"head": self.head, "size": np.array([self.size]), **network}

    @classmethod
    def load(cls, tensors: Mapping[str, NDArray[Any]], options: Options) -> Self:
        """Return the model of what `tensors` gave."""
        torch = import_torch()
        parts = {
            name.removeprefix("network."): torch.from_numpy(np.array(array, np.float32))
            for name, array in tensors.items()
            if name.startswith("network.")
        }
        return cls(tensors["head"].astype(np.float64), float(tensors["size"][0]), parts, options)

    def pairs(self, context: Padded) -> tuple[torch.Tensor, torch.Tensor]:
        """Return difference and middle of each pair, in units of a usual difference.

        They say as much as the two vectors do: a reward that bends needs the middle as well.
        """
        apart = (context.chosen - context.rejected) / self.size
        return apart, (context.chosen + context.rejected) / (2 * self.size)

    def _encoded(self, choices: Choices, rows: list[Whole]) -> Floats:
        with import_torch().inference_mode():
            found: Floats = self.encode(pad(choices, rows)).numpy()
        return found


def _size(choices: Choices) -> float:
    size = float(np.sqrt(np.mean(choices.differences.astype(np.float64) ** 2)))
    return size if size > 0 else 1.0


def _margins(choices: Choices, ridge: float, stream: np.random.Generator) -> Doubles:
    """Return w·D (n), each under a head fitted without the choice's question."""
    fold = folds(choices, FOLDS, stream)
    margins = np.zeros(len(choices))
    for k in np.unique(fold):
        head = fit_head(choices.take(fold != k), ridge)
        margins[fold == k] = choices.differences[fold == k] @ head
    return margins
