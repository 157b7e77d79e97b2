"""Linear rewards by maximum likelihood: one head for everybody, a head per user, a few heads mixed.

P(a over b) = σ(w·(φ(a) − φ(b))): Bradley and Terry, Biometrika 39, 1952; as a reward model: Ouyang
et al., 2022, eq. 1. What is not given is chosen by the likelihood of held-out questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array
from scipy.special import expit, log_expit, logsumexp

from palate.errors import DataError
from palate.learning.choices import Choices, Doubles, Floats, best_of, dots, slate_dots
from palate.learning.personal import Model, Options, Seed, read_options
from palate.learning.solvers import one_blas_thread, ridge_offsets
from palate.learning.states import States
from palate.seeding import rng

RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
VARIANCES = (0.0001, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
CONCENTRATIONS = (0.5, 2.0, 8.0, 32.0, 128.0)
NO_DIRECTION = np.array([np.inf])


class ArrayModel(Model, Protocol):
    """A dataclass of float64 arrays, saved under the names of its fields, and `options`."""

    log_odds: ClassVar[bool] = True
    needs_prompts: ClassVar[bool] = False
    exact: ClassVar[bool] = True

    @classmethod
    def fit(cls, choices: Choices, *, seed: int = 0, **options: Any) -> Self:
        """Choose the ridge where none is given, then fit.

        Raises `DataError` where there is no choice and `UsageError` for an unknown option.
        """
        settings = read_options(cls, options)
        if not len(choices):
            raise DataError("no choice to learn from")
        with one_blas_thread(choices.differences.size):
            settings["ridge"] = settings["ridge"] or choose_ridge(choices, seed)
            return cls.fitted_to(choices, settings, seed)

    @classmethod
    def fitted_to(cls, choices: Choices, options: dict[str, Any], seed: int) -> Self:
        """Fit at a ridge; what else is None is chosen."""

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return every array that was learnt."""
        return {name: array for name, array in vars(self).items() if name != "options"}

    @classmethod
    def load(cls, tensors: Mapping[str, NDArray[Any]], options: Options) -> Self:
        """Return the model of what `tensors` gave."""
        arrays = {name: array.astype(np.float64) for name, array in tensors.items()}
        return cls(**{**arrays, "options": options})

    def changed(self, **fields: Any) -> Self:
        """Return this model with other values in some fields."""
        return type(self)(**{**vars(self), **fields})


class LinearModel(ArrayModel, Protocol):
    """A model in which a user's reward is a product with one vector."""

    def heads_of(self, states: States) -> Doubles:
        """Return the vector of each state (users × d)."""

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return the products."""
        return slate_dots(candidates, self.heads_of(states))


@dataclass(eq=False)
class BradleyTerry(ArrayModel):
    """One reward for everybody: what a personal method must beat.

    score = w·φ, w under a ridge; nobody has a state.
    """

    method: ClassVar[str] = "bradley-terry"
    paper: ClassVar[str] = "Bradley and Terry 1952"
    defaults: ClassVar[Options] = {"ridge": None}

    head: Doubles
    options: Options

    @classmethod
    def fitted_to(cls, choices: Choices, options: dict[str, Any], seed: int) -> Self:
        """Fit w."""
        return cls(fit_head(choices, options["ridge"]), options)

    def prior(self) -> States:
        """Return the empty state."""
        return {"none": np.zeros((1, 0), np.float32)}

    def adapt(self, choices: Choices) -> States:
        """Return the empty state for everybody."""
        return {"none": np.zeros((choices.users, 0), np.float32)}

    def score(self, states: States, candidates: Floats, prompts: Floats | None = None) -> Doubles:
        """Return w·φ."""
        return dots(candidates, self.head)


def fit_head(
    choices: Choices, ridge: float, weights: Doubles | None = None, centre: Doubles | None = None
) -> Doubles:
    """Return argmin over w of Σ aᵢ softplus(−w·Dᵢ) + ½ ridge |w − centre|², which is convex.

    Weights a are 1 and the centre is 0 where none are given; by L-BFGS.
    """
    signs, rows = _factored(choices)
    weight = np.ones(len(choices)) if weights is None else weights
    start = np.zeros(choices.width) if centre is None else centre

    from scipy.optimize import minimize  # slow to import

    def loss(w: Doubles) -> tuple[float, Doubles]:
        margins, apart = signs @ (rows @ w), w - start
        value = float(weight @ np.logaddexp(0, -margins) + 0.5 * ridge * apart @ apart)
        return value, ridge * apart - rows.T @ (signs.T @ (weight * expit(-margins)))

    optimum = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(optimum.x)


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

    def losses(kept: Choices, held: Choices) -> Iterator[float]:
        for ridge in RIDGES:
            yield float(np.logaddexp(0, -held.differences @ fit_head(kept, ridge)).sum())

    return best_of(RIDGES, choices, losses, rng("folds", seed))


@dataclass(eq=False)
class UserHeads(LinearModel):
    """A linear reward for each user, drawn towards the common one.

    score = (w + δ_u)·φ; the state is δ_u, as many numbers as a vector has.

    δ_u ~ N(0, τ² (I + ŵŵ'/s²)): logistic regression per user, shrunk to the global head and not to
    0 (a hierarchical Bradley–Terry model, with the mean of the prior fitted first). s² is the
    variance of w·φ over responses: beside differences of taste in every direction, users differ in
    how closely they follow the general one. τ² is the one under which training users' choices on
    held-out questions are most likely.
    """

    method: ClassVar[str] = "user-heads"
    paper: ClassVar[str] = "Gelman and Hill 2007, ch. 14"
    defaults: ClassVar[Options] = {"ridge": None, "variance": None}

    head: Doubles
    farthest_points: Doubles
    """s, one number."""
    options: Options

    @classmethod
    def fitted_to(cls, choices: Choices, options: dict[str, Any], seed: int) -> Self:
        """Fit w, then choose τ²."""
        head = fit_head(choices, options["ridge"])
        options["variance"] = options["variance"] or _choose_variance(choices, options, seed)
        return cls(head, _spread(choices, head), options)

    def prior(self) -> States:
        """Return δ = 0: the global head."""
        return {"offset": np.zeros((1, len(self.head)), np.float32)}

    def adapt(self, choices: Choices) -> States:
        """Return δ_u of every user, 0 for one without choices."""
        variance = self.options["variance"]
        return {"offset": offsets(choices, self.head, variance, self.farthest_points)}

    def heads_of(self, states: States) -> Doubles:
        """Return w + δ_u (users × d)."""
        return np.asarray(self.head + states["offset"].astype(np.float64))


def offsets(
    choices: Choices, head: Doubles, variance: float, spread: Doubles = NO_DIRECTION
) -> Floats:
    """Return δ (users × d); `spread` is s, without which no direction stands out."""
    offsets = np.zeros((choices.users, choices.width), np.float32)
    with one_blas_thread(int(choices.counts.max(initial=0)) * choices.width):
        for block in choices.blocks():
            margins = block.differences.astype(np.float64) @ head
            rows = np.concatenate([block.differences, (margins / spread)[..., None]], axis=2)
            offset = ridge_offsets(rows, block.mask, margins, variance)
            offsets[block.users] = offset[:, :-1] + offset[:, -1:] * head / spread
    return offsets


def _spread(choices: Choices, head: Doubles) -> Doubles:
    used = np.unique(np.concatenate([choices.chosen, choices.rejected]))
    return np.array([max(float(np.std(choices.features[used] @ head)), 1e-6)])


def _choose_variance(choices: Choices, options: Options, seed: int) -> float:
    def losses(kept: Choices, held: Choices) -> Iterator[float]:
        # The global head is fitted without the held-out questions too.
        head = fit_head(kept, options["ridge"])
        for variance in VARIANCES:
            heads = head + offsets(kept, head, variance, _spread(kept, head))
            margins = np.einsum("nd,nd->n", held.differences, heads[held.user])
            yield float(np.logaddexp(0, -margins).sum())

    return best_of(VARIANCES, choices, losses, rng("variance", seed))


@dataclass(eq=False)
class MixtureOfHeads(ArrayModel):
    """A few kinds of users, each with a reward.

    K heads shared by all; the state is π_u, K numbers that sum to 1.

    P(a over b | u) = Σ_k π_uk σ(w_k·(φ(a) − φ(b))), fitted by expectation–maximisation (Dempster,
    Laird and Rubin, JRSS B 39, 1977; for preferences: Zhao, Piech and Xia, ICML 2016).
    Probabilities are mixed, not rewards, so a pair's log-odds is no difference of two numbers; a
    response's score is its log-odds against the average training response, whose scaled vector
    is 0. Users' shares have a Dirichlet prior with mean `shares` and strength `concentration`.
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
    def fitted_to(cls, choices: Choices, options: dict[str, Any], seed: int) -> Self:
        """Fit heads and shares from several seeded starts; the likeliest is kept."""
        options["concentration"] = options["concentration"] or _choose_concentration(
            cls, choices, options, seed
        )
        fits = [_em(choices, options, (seed, k)) for k in range(options["starts"])]
        _, heads, shares = max(fits, key=lambda fit: fit[0])
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
        margins = dots(candidates, self.heads)  # s × c × K
        logs = np.log(np.maximum(states["shares"].astype(np.float64), 1e-300))[:, None]
        wins, losses = (logsumexp(logs + log_expit(side), -1) for side in (margins, -margins))
        return np.asarray(wins - losses)


def _em(choices: Choices, options: Options, seed: Seed) -> tuple[float, Doubles, Doubles]:
    k, ridge = options["heads"], options["ridge"]
    rows = choices.differences.astype(np.float64)
    stream = rng("mixture", *seed)
    # Users begin in groups, so that heads differ from the start.
    group = stream.integers(k, size=choices.users)[choices.user]
    by_head = np.full((len(rows), k), 0.1 / k)
    by_head[np.arange(len(rows)), group] += 0.9
    shares, centre = np.full(k, 1 / k), fit_head(choices, ridge)
    reached = -np.inf
    for _ in range(options["rounds"]):
        heads = np.stack([fit_head(choices, ridge, by_head[:, j], centre) for j in range(k)])
        likely = log_expit(rows @ heads.T)
        of_user = _shares(choices, by_head, options["concentration"] * shares)
        shares = of_user[choices.counts > 0].mean(axis=0)
        value = float(logsumexp(np.log(of_user[choices.user]) + likely, axis=1).sum())
        value -= 0.5 * ridge * float(((heads - centre) ** 2).sum())
        by_head = _responsibilities(likely, of_user[choices.user])
        if value - reached < 1e-4 * abs(value):
            break
        reached = value
    return value, heads, shares


def _responsibilities(likely: Doubles, shares: Doubles) -> Doubles:
    logs = np.log(shares) + likely
    return np.asarray(np.exp(logs - logsumexp(logs, axis=1, keepdims=True)))


def _shares(choices: Choices, by_head: Doubles, prior: Doubles) -> Doubles:
    total = np.zeros((choices.users, by_head.shape[1]))
    np.add.at(total, choices.user, by_head)
    total += prior
    return np.asarray(total / total.sum(axis=1, keepdims=True))


def _choose_concentration(
    method: type[MixtureOfHeads], choices: Choices, given: Options, seed: int
) -> float:
    def losses(kept: Choices, held: Choices) -> Iterator[float]:
        for concentration in CONCENTRATIONS:
            options = {**given, "concentration": concentration, "starts": 1}
            model = method.fitted_to(kept, options, seed)
            shares = model.adapt(kept)["shares"][held.user]
            p = (shares * expit(held.differences @ model.heads.T)).sum(axis=1)
            yield float(-np.log(p).sum())

    return best_of(CONCENTRATIONS, choices, losses, rng("concentration", seed), times=1)
