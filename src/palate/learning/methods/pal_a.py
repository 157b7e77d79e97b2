"""Ideal points mixed from prototypes (PAL-A; Chen, Chen, Rege and Vinayak 2024).

r_u(x, y) = −|f(φ(x, y)) − a_u|², f a linear map, a_u = Σ_k w_uk p_k, w_u on the simplex; squared,
unlike the paper's, so that adaptation is convex. It is kept as h·φ + 2 a_u·Fφ − γ |Fφ|², γ ≥ 0.
With f = √γ F and the ideal point a_u / √γ the last two are the squared distance up to −|a_u|² / γ,
which no comparison sees; h is a dimension in which everybody's ideal point is the same and without
end far away, and γ = 0 puts all of them there. So linear rewards belong to the model, and with
F = 0 and h = w it is the global Bradley–Terry head w.

It is fitted as `simplex_mixture` says, under ½ strength (|h − w|² + |F|²) + ½ Σ_k |p_k|².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.special import expit

from palate.learning.methods.simplex_mixture import OUTWARD, SimplexMixture
from palate.learning.methods.starts import differences_of_users, farthest_points, truncated_svd
from palate.learning.personal.choices import Choices, Doubles, Floats
from palate.learning.personal.products import dots, slate_dots
from palate.learning.personal.projection import pieces, sums_by_user
from palate.learning.personal.protocol import Options, Seed, States
from palate.learning.solvers.descent import Loss
from palate.seeding import rng

CURVATURE = 0.1
"""γ at the start; L-BFGS moves it freely above 0."""


@dataclass(eq=False)
class PALA(SimplexMixture):
    """A few ideal answers, mixed by weights of the user (PAL-A).

    score = h·φ + 2 a_u·Fφ − γ |Fφ|², a_u = Σ_k w_uk p_k; the state is w_u, K numbers.

    Options: `prototypes` is K; `dimensions` the length of Fφ; `ridge` the global head's; `strength`
    and `concentration` both pulls (from strength 1e6 on everybody has the global head);
    `starts` how many seeded fits compete.
    """

    method: ClassVar[str] = "pal-a"
    paper: ClassVar[str] = "Chen, Chen, Rege and Vinayak 2024, arXiv 2406.08469"
    defaults: ClassVar[Options] = {
        "prototypes": 4,
        "dimensions": 8,
        "ridge": None,
        "strength": None,
        "concentration": None,
        "starts": 3,
    }

    fitted: ClassVar[Sequence[str]] = ("head", "mapping", "prototypes", "curvature")
    lowest: ClassVar[Sequence[float | None]] = (None, None, None, 0.0, None)

    head: Doubles
    mapping: Doubles
    prototypes: Doubles
    curvature: Doubles
    """γ, one number."""
    shares: Doubles
    options: Options

    @classmethod
    def at_global_head(cls, choices: Choices, head: Doubles, options: Options) -> Self:
        """Return the model that is the global head for everybody: F = 0."""
        k, q = options["prototypes"], options["dimensions"]
        mapping, prototypes = np.zeros((q, len(head))), np.zeros((k, q))
        return cls(head, mapping, prototypes, np.zeros(1), np.full(k, 1 / k), options)

    @classmethod
    def begin(cls, choices: Choices, head: Doubles, options: Options, seed: Seed) -> Self:
        """Return F of the directions in which users differ, prototypes of users far apart."""
        k, q, stream = options["prototypes"], options["dimensions"], rng("pal-a", *seed)
        apart = differences_of_users(choices, head)
        _, sizes, right = truncated_svd(apart, q, stream)
        lengths = np.sqrt(np.maximum(sizes / np.sqrt(len(apart)), 1e-6))
        mapping, prototypes = np.zeros((q, len(head))), np.zeros((k, q))
        mapping[: len(sizes)] = lengths[:, None] * right
        far = OUTWARD * farthest_points(apart, k, stream)
        prototypes[:, : len(sizes)] = far @ right.T / lengths / 2
        return cls(head, mapping, prototypes, np.array([CURVATURE]), np.full(k, 1 / k), options)

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return h·φ + 2 a_u·Fφ − γ |Fφ|²."""
        del prompts
        ideal = dots(states["weights"], self.prototypes.T)
        mapped = dots(candidates, self.mapping)
        near = dots(candidates, self.head) + 2 * slate_dots(mapped, ideal)
        return np.asarray(near - self.curvature * (mapped**2).sum(axis=2))

    def by_prototype(self, choices: Choices) -> Doubles:
        """Return each choice's margin under each prototype (n × K)."""
        margins = np.empty((len(choices), len(self.prototypes)))
        for piece in pieces(len(choices), 2 * choices.width):
            chosen, rejected = (
                choices.features[of[piece]].astype(np.float64)
                for of in (choices.chosen, choices.rejected)
            )
            apart, both = (chosen - rejected) @ self.mapping.T, (chosen + rejected) @ self.mapping.T
            shared = (chosen - rejected) @ self.head - self.curvature * (apart * both).sum(axis=1)
            margins[piece] = shared[:, None] + 2 * apart @ self.prototypes.T
        return margins

    def joint(self, choices: Choices, head: Doubles) -> Loss:
        """Return the loss of h, F, the prototypes, γ and w (users × K), with its gradients."""
        rows, sums = choices.differences.astype(np.float64), sums_by_user(choices)
        chosen, rejected = (choices.features[of] for of in (choices.chosen, choices.rejected))
        both = chosen.astype(np.float64) + rejected
        centre, strength = head, self.options["strength"]

        def loss(
            head: Doubles, mapping: Doubles, prototypes: Doubles, bend: Doubles, weights: Doubles
        ) -> tuple[float, list[Doubles]]:
            # |Fφ|² of the chosen less that of the rejected is F(φ − φ')·F(φ + φ').
            apart, together = rows @ mapping.T, both @ mapping.T
            toward = 2 * (weights @ prototypes)[choices.user] - bend * together
            margins = rows @ head + np.einsum("nq,nq->n", apart, toward)
            pull = -expit(-margins)[:, None]
            far = head - centre
            value = np.logaddexp(0, -margins).sum()
            value += 0.5 * strength * (far @ far + (mapping**2).sum()) + 0.5 * (prototypes**2).sum()
            by_head = rows.T @ pull[:, 0] + strength * far
            by_mapping = (pull * toward).T @ rows - bend * ((pull * apart).T @ both)
            by_mapping += strength * mapping
            by_ideal = 2 * (sums @ (pull * apart))
            by_prototypes = weights.T @ by_ideal + prototypes
            by_bend = -np.array([(pull * apart * together).sum()])
            by_weights = by_ideal @ prototypes.T
            return float(value), [by_head, by_mapping, by_prototypes, by_bend, by_weights]

        return loss
