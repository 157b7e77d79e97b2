"""A mixture of K Bradley–Terry heads: users differ in how often they choose by which head.

P(a over b | u) = Σ_k π_uk σ(w_k·(φ(a) − φ(b))), fitted by expectation–maximisation (Dempster, Laird
and Rubin, JRSS B 39, 1977; for preferences: Zhao, Piech and Xia, ICML 2016). Probabilities are
mixed, not rewards, so a pair's log-odds is no difference of two numbers; a response's score is its
log-odds against the average training response, whose scaled vector is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from palate.learning.methods.array_model import ArrayModel
from palate.learning.methods.bradley_terry import choose_ridge, fit_head
from palate.learning.personal.choices import Choices, Doubles, Floats
from palate.learning.personal.folds import best_of
from palate.learning.personal.options import read_options
from palate.learning.personal.products import dots
from palate.learning.personal.protocol import Options, Seed, States
from palate.learning.solvers.threads import one_blas_thread
from palate.seeding import rng

CONCENTRATIONS = (0.5, 2.0, 8.0, 32.0, 128.0)


@dataclass(eq=False)
class MixtureOfHeads(ArrayModel):
    """A few kinds of users, each with a reward.

    K heads shared by all; the state is π_u, K numbers that sum to 1.
    """

    method: ClassVar[str] = "mixture"
    paper: ClassVar[str] = "Zhao, Piech and Xia 2016"
    log_odds: ClassVar[bool] = False
    defaults: ClassVar[Options] = {
        "heads": 4,
        "ridge": None,
        "concentration": None,
        "rounds": 100,
        "starts": 4,
    }

    heads: Doubles
    shares: Doubles
    options: Options

    @classmethod
    def fit(cls, choices: Choices, *, seed: int = 0, **options: Any) -> Self:
        """Fit heads and shares from several seeded starts; the likeliest is kept.

        Users' shares have a Dirichlet prior with mean `shares` and strength `concentration`, which
        without a value is chosen on held-out questions.
        """
        given = read_options(cls, options)
        with one_blas_thread(choices.differences.size):
            ridge = given["ridge"] or choose_ridge(choices, seed)
            concentration = given["concentration"] or _choose_concentration(
                choices, given, ridge, seed
            )
            return cls._of(choices, {**given, "ridge": ridge, "concentration": concentration}, seed)

    @classmethod
    def _of(cls, choices: Choices, options: Options, seed: int) -> Self:
        found = [_em(choices, options, (seed, k)) for k in range(options["starts"])]
        _, heads, shares = max(found, key=lambda one: one[0])
        return cls(heads, shares, options)

    def prior(self) -> States:
        """Return everybody's mean shares."""
        return {"shares": self.shares[None].astype(np.float32)}

    def adapt(self, choices: Choices) -> States:
        """Return the shares that each user's choices make most likely under the prior."""
        likely = log_expit(choices.differences.astype(np.float64) @ self.heads.T)
        prior = self.options["concentration"] * self.shares
        shares = np.repeat(self.shares[None], choices.users, axis=0)
        for _ in range(self.options["rounds"]):
            shares = _shares(choices, _responsibilities(likely, shares[choices.user]), prior)
        return {"shares": shares.astype(np.float32)}

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return each candidate's log-odds against the average response."""
        del prompts
        each = dots(candidates, self.heads)  # s × c × K
        logs = np.log(np.maximum(states["shares"].astype(np.float64), 1e-300))[:, None]
        wins, losses = (logsumexp(logs + log_expit(side), -1) for side in (each, -each))
        return np.asarray(wins - losses)


def _em(choices: Choices, options: Options, seed: Seed) -> tuple[float, Doubles, Doubles]:
    k, ridge = options["heads"], options["ridge"]
    rows = choices.differences.astype(np.float64)
    stream = rng("mixture", *seed)
    # Users begin in groups, so that heads differ from the start.
    group = stream.integers(k, size=choices.users)[choices.user]
    given = np.full((len(rows), k), 0.1 / k)
    given[np.arange(len(rows)), group] += 0.9
    shares, centre = np.full(k, 1 / k), fit_head(choices, ridge)
    reached = -np.inf
    for _ in range(options["rounds"]):
        heads = np.stack([fit_head(choices, ridge, given[:, j], centre) for j in range(k)])
        likely = log_expit(rows @ heads.T)
        own = _shares(choices, given, options["concentration"] * shares)
        shares = own[choices.counts > 0].mean(axis=0)
        value = float(logsumexp(np.log(own[choices.user]) + likely, axis=1).sum())
        value -= 0.5 * ridge * float(((heads - centre) ** 2).sum())
        given = _responsibilities(likely, own[choices.user])
        if value - reached < 1e-4 * abs(value):
            break
        reached = value
    return value, heads, shares


def _responsibilities(likely: Doubles, shares: Doubles) -> Doubles:
    logs = np.log(shares) + likely
    return np.asarray(np.exp(logs - logsumexp(logs, axis=1, keepdims=True)))


def _shares(choices: Choices, given: Doubles, prior: Doubles) -> Doubles:
    total = np.zeros((choices.users, given.shape[1]))
    np.add.at(total, choices.user, given)
    total += prior
    return np.asarray(total / total.sum(axis=1, keepdims=True))


def _choose_concentration(choices: Choices, given: Options, ridge: float, seed: int) -> float:
    def losses(kept: Choices, held: Choices) -> Iterator[float]:
        for concentration in CONCENTRATIONS:
            options = {**given, "ridge": ridge, "concentration": concentration, "starts": 1}
            model = MixtureOfHeads._of(kept, options, seed)
            shares = model.adapt(kept)["shares"][held.user]
            p = (shares * expit(held.differences @ model.heads.T)).sum(axis=1)
            yield float(-np.log(p).sum())

    return best_of(CONCENTRATIONS, choices, losses, rng("concentration", seed), times=1)
