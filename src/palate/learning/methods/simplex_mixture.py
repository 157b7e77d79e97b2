"""The base of LoRe and PAL: a few rewards, and users who mix them by weights on the simplex.

The rewards and w_u = softmax(θ_u) are fitted together by L-BFGS on the pooled likelihood, so that a
user counts as their choices do and the prior means the same for all. Each method's penalty keeps
the rewards near the global Bradley–Terry head; −concentration Σ_k w̄_k log w_uk keeps users near w̄,
the mean weights of the users seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol, Self

import numpy as np
from scipy.special import log_softmax, softmax

from palate.learning.methods.array_model import ArrayModel
from palate.learning.methods.shrinkage import Shrunk
from palate.learning.personal.choices import Choices, Doubles
from palate.learning.personal.protocol import Options, States
from palate.learning.solvers.descent import Loss, minimise
from palate.learning.solvers.simplex import logits, mean_weights, weights_of_users

ROUNDS = 2
"""Joint fits in a row, the mean weights taken anew before each."""
OUTWARD = 2.0
"""A start lies this much farther out than the users it is made of: they lie inside the hull."""


class SimplexMixture(Shrunk, ArrayModel, Protocol):
    """A method that mixes a few rewards; a user's state is w_u, their weights on the simplex."""

    fitted: ClassVar[Sequence[str]]
    """Fields that are fitted together with users' weights."""
    lowest: ClassVar[Sequence[float | None] | None] = None
    """Lower bounds of these and of θ."""
    shares: Doubles
    """w̄."""

    def joint(self, choices: Choices, head: Doubles) -> Loss:
        """Return the loss of the fitted arrays and users' w (users × K), with its gradients."""

    def by_prototype(self, choices: Choices) -> Doubles:
        """Return each choice's margin under each of the rewards that are mixed (n × K)."""

    def refined(self, choices: Choices, head: Doubles, options: Options) -> tuple[Self, float]:
        """Return the joint fit that starts here, and its loss."""
        seen = choices.of_users(np.flatnonzero(choices.counts))
        model, value = self.changed(options=options), np.inf
        for _ in range(ROUNDS):
            weights = model.weights(seen)
            start = [*(getattr(model, name) for name in self.fitted), logits(weights)]
            loss = model.with_prior(model.joint(seen, head))
            (*arrays, theta), value = minimise(loss, start, self.lowest)
            model = model.changed(
                **dict(zip(self.fitted, arrays, strict=True)),
                shares=mean_weights(softmax(theta, axis=1)),
            )
        return model, value

    def with_prior(self, loss: Loss) -> Loss:
        """Return a loss by θ with the prior from one by w = softmax(θ)."""
        shares, concentration = self.shares, self.options["concentration"]

        def by_theta(*given: Doubles) -> tuple[float, list[Doubles]]:
            *arrays, theta = given
            w = softmax(theta, axis=1)
            value, (*slopes, slope) = loss(*arrays, w)
            value += float(-concentration * (log_softmax(theta, axis=1) @ shares).sum())
            inner = slope - (w * slope).sum(axis=1, keepdims=True)
            return value, [*slopes, w * inner + concentration * (w - shares)]

        return by_theta

    def prior(self) -> States:
        """Return the mean weights of the users seen."""
        return {"weights": self.shares[None].astype(np.float32)}

    def adapt(self, choices: Choices) -> States:
        """Return every user's weights: convex, all users in one job."""
        return {"weights": self.weights(choices).astype(np.float32)}

    def weights(self, choices: Choices) -> Doubles:
        """Return w_u of every user (users × K)."""
        rows, concentration = self.by_prototype(choices), self.options["concentration"]
        return weights_of_users(choices, rows, self.shares, concentration)
