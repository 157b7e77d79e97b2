"""Rewards of low rank: a few that users mix on the simplex (LoRe), or features they weigh (PReF).

`SimplexMixture` is the base of LoRe and PAL. The rewards and w_u = softmax(θ_u) are fitted together
by L-BFGS on the pooled likelihood, so that a user counts as their choices do and the prior means
the same for all. Each method's penalty keeps the rewards near the global Bradley–Terry head;
−concentration Σ_k w̄_k log w_uk keeps users near w̄, the mean weights of the users seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax

from palate.learning.choices import (
    NUMBERS,
    Choices,
    Doubles,
    Floats,
    along,
    dots,
    narrowed,
    sums_by_user,
)
from palate.learning.heads import LinearModel
from palate.learning.personal import Options, Seed
from palate.learning.shrinkage import Shrunk, differences_of_users, farthest_points, truncated_svd
from palate.learning.solvers import Loss, minimise, one_blas_thread, ridge_offsets, simplex_weights
from palate.learning.states import States
from palate.seeding import rng

PULLS = {"ridge": None, "strength": None, "concentration": None, "starts": 3}
"""Defaults of LoRe and PAL."""
ROUNDS = 2
"""Joint fits in a row, the mean weights taken anew before each."""
FLOOR = 1e-6
"""No mean weight is below this, so that nobody's weight of a prototype is ruled out."""
POPULATION_ROUNDS = 10
"""Rounds of expectation–maximisation for μ and Σ."""
CONFIDENCE = 0.1
"""Variance of λ's first number during the joint fit."""
NOISE = 0.1
"""Starts differ by this share of a factor's length, in random directions."""
OUTWARD = 2.0
"""A start lies this much farther out than the users it is made of: they lie inside the hull."""


class SimplexMixture(Shrunk, Protocol):
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
            logits = np.log(np.maximum(model.weights(seen), 1e-12))
            start = [*(getattr(model, name) for name in self.fitted), logits]
            loss = model.with_prior(model.joint(seen, head))
            (*arrays, theta), value = minimise(loss, start, self.lowest)
            mean = softmax(theta, axis=1).mean(axis=0) + FLOOR
            fitted = dict(zip(self.fitted, arrays, strict=True))
            model = model.changed(**fitted, shares=mean / mean.sum())
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
        rows, pull = self.by_prototype(choices), self.options["concentration"]
        weights = np.repeat(self.shares[None], choices.users, axis=0)
        with one_blas_thread():
            for block in narrowed(choices, rows).blocks(NUMBERS):
                weights[block.users] = simplex_weights(
                    block.differences, block.mask, self.shares, pull
                )
        return weights


@dataclass(eq=False)
class LoRe(SimplexMixture, LinearModel):
    """A few rewards, mixed by weights of the user (LoRe).

    score = w_u·(V'φ), V (d × B); the state is w_u, B numbers that sum to 1. The penalty is
    ½ strength Σ_j |V_j − w|², w the global Bradley–Terry head.

    Options: `basis` is B; `ridge` the global head's; `strength` and `concentration` both pulls
    (from strength 1e6 on all columns are the global head); `starts` how many seeded fits compete.
    """

    method: ClassVar[str] = "lore"
    paper: ClassVar[str] = "Bose et al. 2025, arXiv 2504.14439"
    defaults: ClassVar[Options] = {"basis": 6, **PULLS}

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
            of_user, seen, apart = weights[choices.user], rows @ basis, basis - head[:, None]
            margins = np.einsum("nb,nb->n", seen, of_user)
            pull = -expit(-margins)[:, None]
            value = np.logaddexp(0, -margins).sum() + 0.5 * strength * (apart**2).sum()
            by_basis = rows.T @ (pull * of_user) + strength * apart
            return float(value), [by_basis, sums @ (pull * seen)]

        return loss


@dataclass(eq=False)
class PReF(Shrunk, LinearModel):
    """A few features of taste, weighed by the user (PReF).

    score = λ_u·(Ψ'φ); the state is λ_u, J numbers.

    r_u(x, y) = λ_u·ψ(x, y), ψ = Ψ'φ with J numbers. The fit begins with a singular value
    decomposition of how users' own heads differ from everybody's and goes on with the joint
    likelihood by L-BFGS: Σ softplus(−λ_u·Ψ'D) + ½ strength |Ψ − (w, 0, …)|² + ½ Σ_u (λ_u −
    e)'S⁻¹(λ_u − e), w the global Bradley–Terry head, e = (1, 0, …), S = diag(0.1, 1, …). The
    squares of Ψ and λ together are the nuclear norm of the users' differences; 0.1 is how much
    users may differ in confidence alone. Then λ_u ~ N(μ, Σ): μ and Σ by expectation–maximisation,
    users' posteriors taken as normal.

    Options: `dimensions` is J; `ridge` the global head's; `strength` the pull above (from 1e6 on
    everybody has the global head); `starts` how many seeded fits compete.
    """

    method: ClassVar[str] = "pref"
    paper: ClassVar[str] = "Shenfeld et al. 2025, arXiv 2503.06358"
    defaults: ClassVar[Options] = {"dimensions": 6, "ridge": None, "strength": None, "starts": 2}

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
        factors = _factors(choices, along(choices, self.psi), self.mean, self.factor)
        return {"factors": factors.astype(np.float32)}

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
    for _ in range(POPULATION_ROUNDS):
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


def next_question(
    model: PReF, answered: Choices, candidates: Floats, *, seed: int = 0
) -> NDArray[np.int64]:
    """Return, per user of `answered`, which of the candidate pairs (p × 2 × d) to ask next.

    That whose answer says most about the user: argmax over pairs of σ'(λ·v)² v'M⁻¹v with
    v = ψ(a) − ψ(b), M = Σ⁻¹ + Σ_answered σ'(λ·vᵢ) vᵢ vᵢ': the posterior's precision, which begins
    at the prior's.

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
