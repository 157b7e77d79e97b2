"""Rewards in the hull of a few basis rewards (LoRe; Bose et al. 2025).

r_u(x, y) = w_u·(V'φ(x, y)), V (d × B), w_u on the simplex. V and w_u = softmax(θ_u) are fitted
together by L-BFGS on the pooled likelihood, so that a user counts as their choices do and the prior
means the same for all. Two terms keep them near everybody: ½ strength Σ_j |V_j − w|², w the global
Bradley–Terry head, and −concentration Σ_k w̄_k log w_uk, w̄ the mean weights of the users seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from palate.personal.choices import Choices, Floats
from palate.personal.methods.shrinkage import SimplexWeights
from palate.personal.methods.starts import differences_of_users, spread
from palate.personal.products import dots, slate_dots
from palate.personal.projection import along, sums_by_user
from palate.personal.protocol import States
from palate.personal.solvers.descent import minimise
from palate.personal.solvers.simplex import (
    logits,
    mean_weights,
    prior_loss,
    through_softmax,
    weights_of_users,
)
from palate.seeding import rng

Doubles = NDArray[np.float64]
ROUNDS = 2
"""Joint fits in a row, the mean weights taken anew before each."""
OUTWARD = 2.0
"""A basis starts this much farther out than the users it is made of: they lie inside the hull."""


class LoRe(SimplexWeights):
    """score = w_u·(V'φ); the state is w_u, B numbers that sum to 1.

    Options: `basis` is B; `ridge` the global head's; `strength` and `concentration` the pulls above
    (from strength 1e6 on all columns are the global head); `starts` how many seeded fits compete.
    """

    method: ClassVar[str] = "lore"
    paper: ClassVar[str] = "Bose et al. 2025, arXiv 2504.14439"
    defaults: ClassVar[Mapping[str, Any]] = {
        "basis": 6, "ridge": None, "strength": None, "concentration": None, "starts": 3,
    }  # fmt: skip

    def __init__(self, basis: Doubles, shares: Doubles, options: Mapping[str, Any]) -> None:
        self.basis, self.shares, self.options = basis, shares, options

    @classmethod
    def alike(cls, choices: Choices, head: Doubles, options: Mapping[str, Any]) -> Self:
        """Return the model whose columns all are the global head."""
        b = options["basis"]
        return cls(np.repeat(head[:, None], b, axis=1), np.full(b, 1 / b), options)

    @classmethod
    def begin(
        cls, choices: Choices, head: Doubles, options: Mapping[str, Any], seed: tuple[int, int]
    ) -> Self:
        """Return a basis made of users whose own heads lie far apart."""
        b = options["basis"]
        far = spread(differences_of_users(choices, head), b, rng("lore", *seed))
        return cls(head[:, None] + OUTWARD * far.T, np.full(b, 1 / b), options)

    def refined(
        self, choices: Choices, head: Doubles, options: Mapping[str, Any]
    ) -> tuple[Self, float]:
        """Return the joint fit that starts here, and its loss."""
        seen = choices.of_users(np.flatnonzero(choices.counts))
        basis, shares = self.basis, self.shares
        rows = seen.differences.astype(np.float64)
        joint = partial(_joint, rows, seen.user, sums_by_user(seen), head, options)
        concentration, value = options["concentration"], np.inf
        for _ in range(ROUNDS):
            weights = weights_of_users(seen, rows @ basis, shares, concentration)
            found, value = minimise(partial(joint, shares), (basis, logits(weights)))
            basis, shares = found[0], mean_weights(softmax(found[1], axis=1))
        return type(self)(basis, shares, options), value

    def by_prototype(self, choices: Choices) -> Doubles:
        """Return V'(φ(chosen) − φ(rejected)) of each choice (n × B)."""
        return along(choices, self.basis)

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return w_u·(V'φ)."""
        del prompts
        return slate_dots(candidates, self.heads_of(states))

    def heads_of(self, states: States) -> Doubles:
        """Return V w_u (users × d)."""
        return dots(states["weights"], self.basis)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return V and the mean weights."""
        return {"basis": self.basis, "shares": self.shares}

    @classmethod
    def load(cls, tensors: Mapping[str, NDArray[Any]], options: Mapping[str, Any]) -> Self:
        """Return the model of V and mean weights."""
        basis, shares = (tensors[name].astype(np.float64) for name in ("basis", "shares"))
        return cls(basis, shares, options)


def _joint(
    rows: Doubles,
    user: NDArray[np.int64],
    sums: Any,
    head: Doubles,
    options: Mapping[str, Any],
    shares: Doubles,
    basis: Doubles,
    theta: Doubles,
) -> tuple[float, tuple[Doubles, Doubles]]:
    strength, concentration = options["strength"], options["concentration"]
    weights = softmax(theta, axis=1)
    own, each, apart = weights[user], rows @ basis, basis - head[:, None]
    margins = np.einsum("nb,nb->n", each, own)
    pull = -expit(-margins)[:, None]
    value = np.logaddexp(0, -margins).sum() + 0.5 * strength * (apart**2).sum()
    by_basis = rows.T @ (pull * own) + strength * apart
    by_theta = through_softmax(weights, sums @ (pull * each), shares, concentration)
    return float(value) + prior_loss(theta, shares, concentration), (by_basis, by_theta)
