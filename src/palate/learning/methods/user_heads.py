"""A head per user, drawn towards everybody's.

w_u = w + δ_u with δ_u ~ N(0, τ² (I + ŵŵ'/s²)): logistic regression per user, shrunk to the global
head and not to 0 (a hierarchical Bradley–Terry model; Gelman and Hill 2007, ch. 14, with the mean
of the prior fitted first). s² is the variance of w·φ over responses: beside differences of taste in
every direction, users differ in how closely they follow the general one. τ² is the one under which
training users' choices on held-out questions are most likely.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from palate.learning.methods.array_model import LinearModel
from palate.learning.methods.bradley_terry import choose_ridge, fit_head
from palate.learning.personal.choices import Choices, Doubles, Floats
from palate.learning.personal.folds import best_of
from palate.learning.personal.options import read_options
from palate.learning.personal.protocol import Options, States
from palate.learning.solvers.newton import ridge_offsets
from palate.learning.solvers.threads import one_blas_thread
from palate.seeding import rng

VARIANCES = (0.0001, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
NO_DIRECTION = np.array([np.inf])


@dataclass(eq=False)
class UserHeads(LinearModel):
    """A linear reward for each user, drawn towards the common one.

    score = (w + δ_u)·φ; the state is δ_u, as many numbers as a vector has.
    """

    method: ClassVar[str] = "user-heads"
    paper: ClassVar[str] = "Gelman and Hill 2007, ch. 14"
    defaults: ClassVar[Options] = {"ridge": None, "variance": None}

    head: Doubles
    farthest_points: Doubles
    """s, one number."""
    options: Options

    @classmethod
    def fit(cls, choices: Choices, *, seed: int = 0, **options: Any) -> Self:
        """Fit w, then choose τ² on held-out questions."""
        given = read_options(cls, options)
        with one_blas_thread(choices.differences.size):
            ridge = given["ridge"] or choose_ridge(choices, seed)
            head = fit_head(choices, ridge)
            variance = given["variance"] or _choose_variance(choices, ridge, seed)
        return cls(head, _spread(choices, head), {"ridge": ridge, "variance": variance})

    def prior(self) -> States:
        """Return δ = 0: the global head."""
        return {"offset": np.zeros((1, len(self.head)), np.float32)}

    def adapt(self, choices: Choices) -> States:
        """Return δ_u of every user, 0 for one without choices."""
        return {
            "offset": offsets(choices, self.head, self.options["variance"], self.farthest_points)
        }

    def heads_of(self, states: States) -> Doubles:
        """Return w + δ_u (users × d)."""
        return np.asarray(self.head + states["offset"].astype(np.float64))


def offsets(
    choices: Choices, head: Doubles, variance: float, farthest_points: Doubles = NO_DIRECTION
) -> Floats:
    """Return δ (users × d); `spread` is s, without which no direction stands out."""
    offsets = np.zeros((choices.users, choices.width), np.float32)
    with one_blas_thread(int(choices.counts.max(initial=0)) * choices.width):
        for block in choices.blocks():
            margins = block.differences.astype(np.float64) @ head
            rows = np.concatenate(
                [block.differences, (margins / farthest_points)[..., None]], axis=2
            )
            offset = ridge_offsets(rows, block.mask, margins, variance)
            offsets[block.users] = offset[:, :-1] + offset[:, -1:] * head / farthest_points
    return offsets


def _spread(choices: Choices, head: Doubles) -> Doubles:
    used = np.unique(np.concatenate([choices.chosen, choices.rejected]))
    return np.array([max(float(np.std(choices.features[used] @ head)), 1e-6)])


def _choose_variance(choices: Choices, ridge: float, seed: int) -> float:
    def losses(kept: Choices, held: Choices) -> Iterator[float]:
        # The global head is fitted without the held-out questions too.
        head = fit_head(kept, ridge)
        for variance in VARIANCES:
            heads = head + offsets(kept, head, variance, _spread(kept, head))
            margins = np.einsum("nd,nd->n", held.differences, heads[held.user])
            yield float(np.logaddexp(0, -margins).sum())

    return best_of(VARIANCES, choices, losses, rng("variance", seed))
