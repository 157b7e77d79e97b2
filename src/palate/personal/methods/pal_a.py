"""Ideal points mixed from prototypes (PAL-A; Chen, Chen, Rege and Vinayak 2024).

r_u(x, y) = −|f(φ(x, y)) − a_u|², f a linear map, a_u = Σ_k w_uk p_k, w_u on the simplex; squared,
unlike the paper's, so that adaptation is convex. It is kept as h·φ + 2 a_u·Fφ − γ |Fφ|², γ ≥ 0.
With f = √γ F and the ideal point a_u / √γ the last two are the squared distance up to −|a_u|² / γ,
which no comparison sees; h is a dimension in which everybody's ideal point is the same and without
end far away, and γ = 0 puts all of them there. So linear rewards belong to the model, and with
F = 0 and h = w it is the global Bradley–Terry head w.

Fitted by L-BFGS on the pooled likelihood with ½ strength (|h − w|² + |F|²), ½ Σ_k |p_k|² and
−concentration Σ_k w̄_k log w_uk, w̄ the mean weights of the users seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from palate.personal.choices import Choices, Floats
from palate.personal.methods.shrinkage import SimplexWeights
from palate.personal.methods.starts import differences_of_users, spread, truncated_svd
from palate.personal.products import dots, slate_dots
from palate.personal.projection import pieces, sums_by_user
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
OUTWARD = 2.0
CURVATURE = 0.1
"""γ at the start; L-BFGS moves it freely above 0."""


@dataclass(eq=False)
class PALA(SimplexWeights):
    """score = h·φ + 2 a_u·Fφ − γ |Fφ|², a_u = Σ_k w_uk p_k; the state is w_u, K numbers.

    Options: `prototypes` is K; `dimensions` the length of Fφ; `ridge` the global head's; `strength`
    and `concentration` the pulls above (from strength 1e6 on everybody has the global head);
    `starts` how many seeded fits compete.
    """

    method: ClassVar[str] = "pal-a"
    paper: ClassVar[str] = "Chen, Chen, Rege and Vinayak 2024, arXiv 2406.08469"
    defaults: ClassVar[Mapping[str, Any]] = {
        "prototypes": 4, "dimensions": 8, "ridge": None, "strength": None, "concentration": None,
        "starts": 3,
    }  # fmt: skip

    head: Doubles
    mapping: Doubles
    prototypes: Doubles
    curvature: float
    shares: Doubles
    options: Mapping[str, Any]

    @classmethod
    def alike(cls, choices: Choices, head: Doubles, options: Mapping[str, Any]) -> Self:
        """Return the model that is the global head for everybody: F = 0."""
        k, q = options["prototypes"], options["dimensions"]
        mapping, prototypes = np.zeros((q, len(head))), np.zeros((k, q))
        return cls(head, mapping, prototypes, 0.0, np.full(k, 1 / k), options)

    @classmethod
    def begin(
        cls, choices: Choices, head: Doubles, options: Mapping[str, Any], seed: tuple[int, int]
    ) -> Self:
        """Return F of the directions in which users differ, prototypes of users far apart."""
        k, q, stream = options["prototypes"], options["dimensions"], rng("pal-a", *seed)
        apart = differences_of_users(choices, head)
        _, sizes, right = truncated_svd(apart, q, stream)
        lengths = np.sqrt(np.maximum(sizes / np.sqrt(len(apart)), 1e-6))
        mapping, prototypes = np.zeros((q, len(head))), np.zeros((k, q))
        mapping[: len(sizes)] = lengths[:, None] * right
        far = OUTWARD * spread(apart, k, stream)
        prototypes[:, : len(sizes)] = far @ right.T / lengths / 2
        return cls(head, mapping, prototypes, CURVATURE, np.full(k, 1 / k), options)

    def refined(
        self, choices: Choices, head: Doubles, options: Mapping[str, Any]
    ) -> tuple[Self, float]:
        """Return the joint fit that starts here, and its loss."""
        seen = choices.of_users(np.flatnonzero(choices.counts))
        rows = seen.differences.astype(np.float64)
        both = seen.features[seen.chosen].astype(np.float64) + seen.features[seen.rejected]
        joint = partial(_joint, rows, both, seen.user, sums_by_user(seen), head, options)
        model, value = self, np.inf
        for _ in range(ROUNDS):
            weights = weights_of_users(
                seen, model.by_prototype(seen), model.shares, options["concentration"]
            )
            curvature = np.array([model.curvature])
            start = (model.head, model.mapping, model.prototypes, curvature, logits(weights))
            lowest = (None, None, None, 0.0, None)
            found, value = minimise(partial(joint, model.shares), start, lowest)
            own, mapping, prototypes, bend, theta = found
            shares = mean_weights(softmax(theta, axis=1))
            model = type(self)(own, mapping, prototypes, float(bend[0]), shares, options)
        return model, value

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return h·φ + 2 a_u·Fφ − γ |Fφ|²."""
        del prompts
        ideal = dots(states["weights"], self.prototypes.T)
        mapped = dots(candidates, self.mapping)
        near = dots(candidates, self.head) + 2 * slate_dots(mapped, ideal)
        return np.asarray(near - self.curvature * (mapped**2).sum(axis=2))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return h, F, the prototypes, γ and the mean weights."""
        return {
            "head": self.head,
            "mapping": self.mapping,
            "prototypes": self.prototypes,
            "curvature": np.array([self.curvature]),
            "shares": self.shares,
        }

    @classmethod
    def load(cls, tensors: Mapping[str, NDArray[Any]], options: Mapping[str, Any]) -> Self:
        """Return the model of what `tensors` gave."""
        parts = {name: array.astype(np.float64) for name, array in tensors.items()}
        curvature = float(parts.pop("curvature")[0])
        return cls(**parts, curvature=curvature, options=options)

    def by_prototype(self, choices: Choices) -> Doubles:
        """Return each choice's margin under each prototype (n × K)."""
        found = np.empty((len(choices), len(self.prototypes)))
        for piece in pieces(len(choices), 2 * choices.width):
            chosen, rejected = (
                choices.features[of[piece]].astype(np.float64)
                for of in (choices.chosen, choices.rejected)
            )
            apart, both = (chosen - rejected) @ self.mapping.T, (chosen + rejected) @ self.mapping.T
            shared = (chosen - rejected) @ self.head - self.curvature * (apart * both).sum(axis=1)
            found[piece] = shared[:, None] + 2 * apart @ self.prototypes.T
        return found


def _joint(
    rows: Doubles,
    both: Doubles,
    user: NDArray[np.int64],
    sums: Any,
    centre: Doubles,
    options: Mapping[str, Any],
    shares: Doubles,
    head: Doubles,
    mapping: Doubles,
    prototypes: Doubles,
    curvature: Doubles,
    theta: Doubles,
) -> tuple[float, tuple[Doubles, ...]]:
    # |Fφ|² of the chosen less that of the rejected is F(φ − φ')·F(φ + φ').
    strength, concentration = options["strength"], options["concentration"]
    weights = softmax(theta, axis=1)
    apart, together = rows @ mapping.T, both @ mapping.T
    toward = 2 * (weights @ prototypes)[user] - curvature * together
    margins = rows @ head + np.einsum("nq,nq->n", apart, toward)
    pull = -expit(-margins)[:, None]
    far = head - centre
    value = np.logaddexp(0, -margins).sum()
    value += 0.5 * strength * (far @ far + (mapping**2).sum()) + 0.5 * (prototypes**2).sum()
    by_head = rows.T @ pull[:, 0] + strength * far
    by_mapping = (pull * toward).T @ rows - curvature * ((pull * apart).T @ both)
    by_mapping += strength * mapping
    by_ideal = 2 * (sums @ (pull * apart))
    by_prototypes = weights.T @ by_ideal + prototypes
    by_curvature = -np.array([(pull * apart * together).sum()])
    by_theta = through_softmax(weights, by_ideal @ prototypes.T, shares, concentration)
    value = float(value) + prior_loss(theta, shares, concentration)
    return value, (by_head, by_mapping, by_prototypes, by_curvature, by_theta)
