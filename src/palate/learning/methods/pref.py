"""Rewards as a product of user and response factors (PReF; Shenfeld et al. 2025).

r_u(x, y) = λ_u·ψ(x, y), ψ = Ψ'φ with J numbers. The fit begins with a singular value decomposition
of how users' own heads differ from everybody's and goes on with the joint likelihood by L-BFGS:
Σ softplus(−λ_u·Ψ'D) + ½ strength |Ψ − (w, 0, …)|² + ½ Σ_u (λ_u − e)'S⁻¹(λ_u − e), w the global
Bradley–Terry head, e = (1, 0, …), S = diag(0.1, 1, …). The squares of Ψ and λ together are the
nuclear norm of the users' differences; 0.1 is how much users may differ in confidence alone.
Then λ_u ~ N(μ, Σ): μ and Σ by expectation–maximisation, users' posteriors taken as normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.special import expit

from palate.learning.methods.array_model import LinearModel
from palate.learning.methods.shrinkage import Shrunk
from palate.learning.methods.starts import differences_of_users, truncated_svd
from palate.learning.personal.choices import Choices, Doubles
from palate.learning.personal.products import dots
from palate.learning.personal.projection import NUMBERS, along, narrowed, sums_by_user
from palate.learning.personal.protocol import Options, Seed, States
from palate.learning.solvers.descent import Loss, minimise
from palate.learning.solvers.newton import ridge_offsets
from palate.learning.solvers.threads import one_blas_thread
from palate.seeding import rng

ROUNDS = 10
"""Rounds of expectation–maximisation for μ and Σ."""
CONFIDENCE = 0.1
"""Variance of λ's first number during the joint fit."""
NOISE = 0.1
"""Starts differ by this share of a factor's length, in random directions."""


@dataclass(eq=False)
class PReF(Shrunk, LinearModel):
    """A few features of taste, weighed by the user (PReF).

    score = λ_u·(Ψ'φ); the state is λ_u, J numbers.

    Options: `dimensions` is J; `ridge` the global head's; `strength` the pull above (from 1e6 on
    everybody has the global head); `starts` how many seeded fits compete.
    """

    method: ClassVar[str] = "pref"
    paper: ClassVar[str] = "Shenfeld et al. 2025, arXiv 2503.06358"
    defaults: ClassVar[Options] = {
        "dimensions": 6,
        "ridge": None,
        "strength": None,
        "starts": 2,
    }

    psi: Doubles
    mean: Doubles
    """μ."""
    factor: Doubles
    """L, with Σ = LL'."""
    options: Options

    @classmethod
    def at_global_head(cls, choices: Choices, head: Doubles, options: Options) -> Self:
        """Return the model whose first factor is the global head and where λ_u cannot move."""
        j = options["dimensions"]
        return cls(_at(head, j), np.eye(j)[0], np.zeros((j, j)), options)

    @classmethod
    def begin(cls, choices: Choices, head: Doubles, options: Options, seed: Seed) -> Self:
        """Return the global head beside the directions in which users' own heads differ most."""
        stream, j = rng("pref", *seed), options["dimensions"]
        apart = differences_of_users(choices, head)
        _, sizes, right = truncated_svd(apart, j - 1, stream)
        psi = _at(head, j)
        # λ has variance 1 where a direction's length is its singular value over √users.
        psi[:, 1 : 1 + len(sizes)] = right.T * sizes / np.sqrt(len(apart))
        noise = stream.normal(size=psi.shape) / np.sqrt(len(psi))
        psi[:, 1:] += NOISE * noise[:, 1:] * np.linalg.norm(psi[:, 1:], axis=0)
        return cls(psi, np.eye(j)[0], np.sqrt(_first(j)), options)

    def refined(self, choices: Choices, head: Doubles, options: Options) -> tuple[Self, float]:
        """Return the joint fit that starts here, with its own μ and Σ, and its loss."""
        seen = choices.of_users(np.flatnonzero(choices.counts))
        rows = seen.differences.astype(np.float64)
        start = _factors(seen, rows @ self.psi, self.mean, self.factor)
        joint = joint_loss(seen, head, options["strength"], len(self.mean))
        (psi, _), value = minimise(joint, (self.psi, start))
        mean, factor = _population(seen, rows @ psi)
        return type(self)(psi, mean, factor, options), value

    def prior(self) -> States:
        """Return μ."""
        return {"factors": self.mean[None].astype(np.float32)}

    def adapt(self, choices: Choices) -> States:
        """Return every user's likeliest λ_u under N(μ, Σ): convex, all users in one job."""
        found = _factors(choices, along(choices, self.psi), self.mean, self.factor)
        return {"factors": found.astype(np.float32)}

    def heads_of(self, states: States) -> Doubles:
        """Return Ψ λ_u (users × d)."""
        return dots(states["factors"], self.psi)


def _at(head: Doubles, j: int) -> Doubles:
    psi = np.zeros((len(head), j))
    psi[:, 0] = head
    return psi


def _first(j: int) -> Doubles:
    return np.diag([CONFIDENCE] + [1.0] * (j - 1))


def joint_loss(choices: Choices, head: Doubles, strength: float, j: int) -> Loss:
    """Return the loss of Ψ (d × J) and λ (users × J), with its gradients."""
    rows, sums = choices.differences.astype(np.float64), sums_by_user(choices)
    centre, mean, variance = _at(head, j), np.eye(j)[0], np.diag(_first(j))

    def loss(psi: Doubles, factors: Doubles) -> tuple[float, list[Doubles]]:
        of_user, of_basis = factors[choices.user], rows @ psi
        margins = np.einsum("nj,nj->n", of_basis, of_user)
        pull = -expit(-margins)[:, None]
        apart, away = psi - centre, factors - mean
        pulled = away / variance
        value = np.logaddexp(0, -margins).sum()
        value += 0.5 * strength * (apart**2).sum() + 0.5 * (away * pulled).sum()
        by_psi = rows.T @ (pull * of_user) + strength * apart
        return float(value), [by_psi, sums @ (pull * of_basis) + pulled]

    return loss


@one_blas_thread()
def _factors(choices: Choices, rows: Doubles, mean: Doubles, factor: Doubles) -> Doubles:
    factors = np.repeat(mean[None], choices.users, axis=0)
    for block in narrowed(choices, rows).blocks(NUMBERS):
        # λ = μ + L z with z ~ N(0, I), so that the ridge is the same for every number.
        seen = block.differences.astype(np.float64)
        z = ridge_offsets(seen @ factor, block.mask, seen @ mean, 1.0)
        factors[block.users] += z @ factor.T
    return factors


@one_blas_thread()
def _population(choices: Choices, rows: Doubles) -> tuple[Doubles, Doubles]:
    """Return μ and L of the users' λ."""
    j = rows.shape[1]
    mean, factor = np.eye(j)[0], np.sqrt(_first(j))
    low = narrowed(choices, rows)
    for _ in range(ROUNDS):
        first, second = np.zeros(j), np.zeros((j, j))
        for block in low.blocks(NUMBERS):
            seen = block.differences.astype(np.float64)
            v, margins = seen @ factor, seen @ mean
            z = ridge_offsets(v, block.mask, margins, 1.0)
            p = expit(margins + np.einsum("umj,uj->um", v, z))
            curve = v.transpose(0, 2, 1) @ (v * (p * (1 - p) * block.mask)[..., None])
            first += z.sum(axis=0)
            second += z.T @ z + np.linalg.inv(curve + np.eye(j)).sum(axis=0)
        centre = first / low.users
        covariance = second / low.users - np.outer(centre, centre)
        mean, factor = mean + factor @ centre, factor @ np.linalg.cholesky(covariance)
    return mean, factor
