"""Which pair to ask a user next, so that their answer says most about them.

PReF (Shenfeld et al. 2025): argmax over pairs of σ'(λ·v)² v'M⁻¹v with v = ψ(a) − ψ(b),
M = Σ⁻¹ + Σ_answered σ'(λ·vᵢ) vᵢ vᵢ': the posterior's precision, which begins at the prior's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from palate.learning.methods.pref import PReF
from palate.learning.personal.choices import Choices, Doubles, Floats
from palate.learning.personal.projection import NUMBERS, along, narrowed
from palate.seeding import rng


def next_question(
    model: PReF, answered: Choices, candidates: Floats, *, seed: int = 0
) -> NDArray[np.int64]:
    """Return, per user of `answered`, which of the candidate pairs (p × 2 × d) to ask next.

    Whoever has answered nothing gets one random pair, the same for all under one seed. The
    candidates should not hold pairs that were already asked.
    """
    pairs = (candidates[:, 0].astype(np.float64) - candidates[:, 1]) @ model.psi
    first = int(rng("first question", seed).integers(len(pairs)))
    chosen = np.full(answered.users, first, np.int64)
    factors = model.adapt(answered)["factors"].astype(np.float64)
    sure = precision(model, answered)
    for user in np.flatnonzero(answered.counts):
        p = expit(pairs @ factors[user])
        # In the coordinates of z, λ = μ + L z, v'M⁻¹v is (L'v)'(I + …)⁻¹(L'v): no Σ⁻¹ is needed.
        v = pairs @ model.factor
        gain = (p * (1 - p)) ** 2 * (v * np.linalg.solve(sure[user], v.T).T).sum(axis=1)
        chosen[user] = int(np.argmax(gain))
    return chosen


def precision(model: PReF, answered: Choices) -> Doubles:
    """Return L'ML of every user (users × J × J), the identity where nothing is answered."""
    j = len(model.mean)
    precisions = np.repeat(np.eye(j)[None], answered.users, axis=0)
    factors = model.adapt(answered)["factors"].astype(np.float64)
    for block in narrowed(answered, along(answered, model.psi)).blocks(NUMBERS):
        seen = block.differences.astype(np.float64)
        p = expit(np.einsum("umj,uj->um", seen, factors[block.users]))
        v = seen @ model.factor
        precisions[block.users] += v.transpose(0, 2, 1) @ (
            v * (p * (1 - p) * block.mask)[..., None]
        )
    return precisions
