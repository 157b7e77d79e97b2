"""The strength by which users may differ from everybody, chosen on held-out questions.

A shrunk method starts from the global Bradley–Terry head and pays for leaving it. Several strengths
are tried beside the model in which nobody differs, and what makes the training users' choices on
held-out questions most likely is kept. So a world without personal differences costs nothing, and
no fit needs to be stopped early.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from palate.learning.choices import FOLDS, Choices, Doubles, folds, pieces
from palate.learning.heads import ArrayModel, fit_head, offsets
from palate.learning.personal import Model, Options, Seed
from palate.learning.states import States, take
from palate.seeding import rng

STRENGTHS = (3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
ENOUGH, WORTH = 2, 2.0
"""Once telling users apart has gained 2 nats, two weaker strengths without gain end the search."""
ALIKE = 1e6
"""From this strength on nobody differs: the model is the global head."""
CONCENTRATIONS = (0.3, 3.0, 10.0, 30.0)
FIRST_CONCENTRATION = 1.0
VARIANCE = 1.0
"""τ² of the heads of single users that a start is made of; only their directions matter."""


class Shrunk(ArrayModel, Protocol):
    """A method that can start, be refined, and equal the global head."""

    @classmethod
    def fitted_to(cls, choices: Choices, options: dict[str, Any], seed: int) -> Self:
        """Choose what is not given, fit from several seeded starts and keep the likeliest."""
        if any(value is None for value in options.values()):
            options = _settled(cls, choices, options, seed)
        head = fit_head(choices, options["ridge"])
        if options["strength"] >= ALIKE:
            return cls.at_global_head(choices, head, options)
        fits = [
            cls.begin(choices, head, options, (seed, k)).refined(choices, head, options)
            for k in range(options["starts"])
        ]
        return min(fits, key=lambda fit: fit[1])[0]

    @classmethod
    def at_global_head(cls, choices: Choices, head: Doubles, options: Options) -> Self:
        """Return the model in which everybody has the global head."""

    @classmethod
    def begin(cls, choices: Choices, head: Doubles, options: Options, seed: Seed) -> Self:
        """Return a rough model in which users differ, for a fit to start from."""

    def refined(self, choices: Choices, head: Doubles, options: Options) -> tuple[Self, float]:
        """Return the fit that starts here, and its loss."""


S = TypeVar("S", bound=Shrunk)


def _settled(method: type[S], choices: Choices, given: Options, seed: int) -> dict[str, Any]:
    filled = {"strength": ALIKE, "concentration": FIRST_CONCENTRATION}
    base = {name: filled[name] if value is None else value for name, value in given.items()}
    out = folds(choices, FOLDS, rng("held-out", seed)) == 0
    fitted_on, held = choices.take(~out), choices.take(out)
    if not len(fitted_on):
        return base
    head = fit_head(fitted_on, given["ridge"])
    start = method.begin(fitted_on, head, base, (seed, 0))
    tried: list[tuple[float, S]] = []

    def keep(model: S) -> S:
        lost = np.logaddexp(0, -margins(model, model.adapt(fitted_on), held)).sum()
        tried.append((float(lost), model))
        return min(tried, key=lambda attempt: attempt[0])[1]

    def fitted(changes: Mapping[str, float], given: Options) -> S:
        return keep(start.refined(fitted_on, head, {**given, **changes})[0])

    if given["strength"] is None:
        refit = keep(method.at_global_head(fitted_on, head, base))
        for strength in STRENGTHS:
            refit = fitted({"strength": strength}, base)
            losses = [loss for loss, _ in tried]
            gained, best = losses[0] - min(losses), int(np.argmin(losses))
            if gained > WORTH and len(losses) - 1 - best == ENOUGH:
                break
    else:
        refit = fitted({}, base)
    if given.get("concentration", 0) is None and refit.options["strength"] < ALIKE:
        first = refit.options
        for value in CONCENTRATIONS:
            refit = fitted({"concentration": value}, first)
    return dict(refit.options)


def margins(model: Model, states: States, choices: Choices) -> Doubles:
    """Return score(chosen) − score(rejected) of every choice (n), each under its user's state."""
    margins = np.empty(len(choices))
    for piece in pieces(len(choices), 2 * choices.width):
        chosen, rejected = choices.chosen[piece], choices.rejected[piece]
        pairs = np.stack([choices.features[chosen], choices.features[rejected]], axis=1)
        prompts = None if choices.prompts is None else choices.prompts[chosen]
        scores = model.score(take(states, choices.user[piece]), pairs, prompts)
        margins[piece] = scores[:, 0] - scores[:, 1]
    return margins


def differences_of_users(choices: Choices, head: Doubles) -> Doubles:
    """Return how the head of each user with choices differs from `head` (users × d)."""
    return offsets(choices, head, VARIANCE)[choices.counts > 0].astype(np.float64)


def truncated_svd(
    matrix: Doubles, rank: int, stream: np.random.Generator
) -> tuple[Doubles, Doubles, Doubles]:
    """Return U (n × r), s (r, falling) and V' (r × d) with U s V' ≈ matrix, r ≤ rank.

    >>> _, sizes, _ = truncated_svd(np.diag([1.0, 5.0, 3.0]), 2, np.random.default_rng(0))
    >>> sizes.round(6).tolist()
    [5.0, 3.0]
    """
    rank = min(rank, *matrix.shape)
    if rank < min(matrix.shape) and rank > 0 and np.abs(matrix).max() > 0:
        from scipy.sparse.linalg import svds  # slow to import

        parts = svds(matrix, k=rank, v0=stream.normal(size=min(matrix.shape)))
        left, sizes, right = (np.asarray(part, np.float64) for part in parts)
        order = np.argsort(-sizes)
    else:
        left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
        order = np.arange(rank)
    return left[:, order], sizes[order], right[order]


def farthest_points(points: Doubles, count: int, stream: np.random.Generator) -> Doubles:
    """Return `count` of the points (n × d) far from each other, noise taken off.

    Drawn as the first centres of k-means++ (Arthur and Vassilvitskii 2007) among the points'
    approximations of rank `count`.
    """
    left, sizes, right = truncated_svd(points, count, stream)
    smooth = (left * sizes) @ right
    picked = [int(stream.integers(len(smooth)))]
    nearest = np.full(len(smooth), np.inf)
    while len(picked) < count:
        nearest = np.minimum(nearest, ((smooth - smooth[picked[-1]]) ** 2).sum(axis=1))
        total = nearest.sum()
        odds = nearest / total if total > 0 else np.full(len(smooth), 1 / len(smooth))
        picked.append(int(stream.choice(len(smooth), p=odds)))
    return np.asarray(smooth[picked])
