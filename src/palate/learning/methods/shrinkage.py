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

from palate.errors import DataError
from palate.learning.methods.bradley_terry import choose_ridge, fit_head
from palate.learning.personal.choices import Choices, Doubles
from palate.learning.personal.folds import FOLDS, folds
from palate.learning.personal.options import read_options
from palate.learning.personal.projection import margins
from palate.learning.personal.protocol import Model, Options, Seed
from palate.learning.solvers.threads import one_blas_thread
from palate.seeding import rng

STRENGTHS = (3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
ENOUGH, WORTH = 2, 2.0
"""Once telling users apart has gained 2 nats, two weaker strengths without gain end the search."""
ALIKE = 1e6
"""From this strength on nobody differs: the model is the global head."""
CONCENTRATIONS = (0.3, 3.0, 10.0, 30.0)
FIRST_CONCENTRATION = 1.0


class Shrunk(Model, Protocol):
    """A method that can start, be refined, and equal the global head."""

    @classmethod
    def fit(cls, choices: Choices, *, seed: int = 0, **options: Any) -> Self:
        """Choose what is not given, then fit from several seeded starts and keep the likeliest.

        Raises `DataError` where there is no choice and `UsageError` for an unknown option.
        """
        given = read_options(cls, options)
        if not len(choices):
            raise DataError("no choice to learn from")
        with one_blas_thread(choices.differences.size):
            given["ridge"] = given["ridge"] or choose_ridge(choices, seed)
            if any(value is None for value in given.values()):
                given = _settled(cls, choices, given, seed)
            head = fit_head(choices, given["ridge"])
            if given["strength"] >= ALIKE:
                return cls.at_global_head(choices, head, given)
            starts = [
                cls.begin(choices, head, given, (seed, k)).refined(choices, head, given)
                for k in range(given["starts"])
            ]
            return min(starts, key=lambda one: one[1])[0]

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
        tried.append((held_out_loss(model, fitted_on, held), model))
        return min(tried, key=lambda one: one[0])[1]

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


def held_out_loss(model: Model, kept: Choices, held: Choices) -> float:
    """Return −log of the held-out choices' likelihood, users adapted to those kept."""
    return float(np.logaddexp(0, -margins(model, model.adapt(kept), held)).sum())
