"""One Bradley–Terry head for everybody: the yardstick for every personal method.

Bradley and Terry, Biometrika 39, 1952; as a reward model: Ouyang et al., 2022, eq. 1.
P(a over b) = σ(w·(φ(a) − φ(b))), w by maximum likelihood under a ridge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array, eye_array
from scipy.special import expit

from palate.errors import DataError
from palate.learning.methods.array_model import ArrayModel
from palate.learning.personal.choices import Choices, Doubles, Floats
from palate.learning.personal.folds import best_of
from palate.learning.personal.options import read_options
from palate.learning.personal.products import dots
from palate.learning.personal.protocol import Options, States
from palate.learning.solvers.threads import one_blas_thread
from palate.seeding import rng

RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


@dataclass(eq=False)
class BradleyTerry(ArrayModel):
    """One reward for everybody: what a personal method must beat.

    score = w·φ; nobody has a state.
    """

    method: ClassVar[str] = "bradley-terry"
    paper: ClassVar[str] = "Bradley and Terry 1952"
    defaults: ClassVar[Options] = {"ridge": None}

    head: Doubles
    options: Options

    @classmethod
    def fit(cls, choices: Choices, *, seed: int = 0, **options: Any) -> Self:
        """Fit w; without a `ridge` it is chosen by the likelihood of held-out questions."""
        given = read_options(cls, options)
        with one_blas_thread(choices.differences.size):
            ridge = given["ridge"] or choose_ridge(choices, seed)
            return cls(fit_head(choices, ridge), {**given, "ridge": ridge})

    def prior(self) -> States:
        """Return the empty state."""
        return {"none": np.zeros((1, 0), np.float32)}

    def adapt(self, choices: Choices) -> States:
        """Return the empty state for everybody."""
        return {"none": np.zeros((choices.users, 0), np.float32)}

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return w·φ."""
        del states, prompts
        return dots(candidates, self.head)


def fit_head(
    choices: Choices,
    ridge: float,
    weights: Doubles | None = None,
    centre: Doubles | None = None,
) -> Doubles:
    """Return argmin over w of Σ aᵢ softplus(−w·Dᵢ) + ½ ridge |w − centre|², which is convex.

    Weights a are 1 and the centre is 0 where none are given; by L-BFGS.
    """
    signs, rows = _factored(choices)
    weight = np.ones(len(choices)) if weights is None else weights
    start = np.zeros(choices.width) if centre is None else centre

    def loss(w: Doubles) -> tuple[float, Doubles]:
        margins, apart = signs @ (rows @ w), w - start
        value = float(weight @ np.logaddexp(0, -margins) + 0.5 * ridge * apart @ apart)
        return value, ridge * apart - rows.T @ (signs.T @ (weight * expit(-margins)))

    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(found.x)


def _factored(choices: Choices) -> tuple[Any, Doubles]:
    """Return S (sparse) and R with S R = D: R holds the responses, where they are fewer than D."""
    n = len(choices)
    used, place = np.unique(np.concatenate([choices.chosen, choices.rejected]), return_inverse=True)
    if len(used) >= n:
        return eye_array(n, format="csr"), choices.differences.astype(np.float64)
    side = np.repeat([1.0, -1.0], n)
    signs = csr_array((side, (np.tile(np.arange(n), 2), place)), shape=(n, len(used)))
    return signs, choices.features[used].astype(np.float64)


def choose_ridge(choices: Choices, seed: int) -> float:
    """Return the ridge whose heads make choices on held-out questions most likely, in 5 folds."""
    if not len(choices):
        raise DataError("no choice to learn from")

    def losses(kept: Choices, held: Choices) -> Iterator[float]:
        for ridge in RIDGES:
            yield float(np.logaddexp(0, -held.differences @ fit_head(kept, ridge)).sum())

    return best_of(RIDGES, choices, losses, rng("folds", seed))
