"""Rewards in the hull of a few basis rewards (LoRe; Bose et al. 2025).

r_u(x, y) = w_u·(V'φ(x, y)), V (d × B), w_u on the simplex, fitted together as
`simplex_mixture` says, under ½ strength Σ_j |V_j − w|², w the global Bradley–Terry head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.special import expit

from palate.learning.methods.array_model import LinearModel
from palate.learning.methods.simplex_mixture import OUTWARD, SimplexMixture
from palate.learning.methods.starts import differences_of_users, farthest_points
from palate.learning.personal.choices import Choices, Doubles
from palate.learning.personal.products import dots
from palate.learning.personal.projection import along, sums_by_user
from palate.learning.personal.protocol import Options, Seed, States
from palate.learning.solvers.descent import Loss
from palate.seeding import rng


@dataclass(eq=False)
class LoRe(SimplexMixture, LinearModel):
    """A few rewards, mixed by weights of the user (LoRe).

    score = w_u·(V'φ); the state is w_u, B numbers that sum to 1.

    Options: `basis` is B; `ridge` the global head's; `strength` and `concentration` both pulls
    (from strength 1e6 on all columns are the global head); `starts` how many seeded fits compete.
    """

    method: ClassVar[str] = "lore"
    paper: ClassVar[str] = "Bose et al. 2025, arXiv 2504.14439"
    defaults: ClassVar[Options] = {
        "basis": 6,
        "ridge": None,
        "strength": None,
        "concentration": None,
        "starts": 3,
    }

    fitted: ClassVar[Sequence[str]] = ("basis",)

    basis: Doubles
    shares: Doubles
    options: Options

    @classmethod
    def at_global_head(cls, choices: Choices, head: Doubles, options: Options) -> Self:
        """Return the model whose columns all are the global head."""
        b = options["basis"]
        return cls(np.repeat(head[:, None], b, axis=1), np.full(b, 1 / b), options)

    @classmethod
    def begin(cls, choices: Choices, head: Doubles, options: Options, seed: Seed) -> Self:
        """Return a basis made of users whose own heads lie far apart."""
        b = options["basis"]
        far = farthest_points(differences_of_users(choices, head), b, rng("lore", *seed))
        return cls(head[:, None] + OUTWARD * far.T, np.full(b, 1 / b), options)

    def by_prototype(self, choices: Choices) -> Doubles:
        """Return V'(φ(chosen) − φ(rejected)) of each choice (n × B)."""
        return along(choices, self.basis)

    def heads_of(self, states: States) -> Doubles:
        """Return V w_u (users × d)."""
        return dots(states["weights"], self.basis)

    def joint(self, choices: Choices, head: Doubles) -> Loss:
        """Return the loss of V and w (users × B), with its gradients."""
        rows, sums = choices.differences.astype(np.float64), sums_by_user(choices)
        strength = self.options["strength"]

        def loss(basis: Doubles, weights: Doubles) -> tuple[float, list[Doubles]]:
            own, each, apart = weights[choices.user], rows @ basis, basis - head[:, None]
            margins = np.einsum("nb,nb->n", each, own)
            pull = -expit(-margins)[:, None]
            value = np.logaddexp(0, -margins).sum() + 0.5 * strength * (apart**2).sum()
            by_basis = rows.T @ (pull * own) + strength * apart
            return float(value), [by_basis, sums @ (pull * each)]

        return loss
