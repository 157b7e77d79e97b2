"""A scorer that adds the scores of its members, with weights that are learnt or given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import permutations
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat
from scipy.special import expit

from palate.errors import SpecError, UsageError
from palate.learning.solvers import one_blas_thread, ridge_offsets
from palate.metrics import Clusters, Estimate
from palate.metrics.arrays import FloatArray, Ids
from palate.metrics.clusters import Columns, added, jackknife
from palate.metrics.estimates import Spread, interval
from palate.metrics.means import unbounded
from palate.records import Scores, Settings, Slate
from palate.scorers.panel import Company, MembersFile
from palate.session import Session
from palate.specs import Spec

VARIANCE = 1.0
"""The penalty is |w|²/(2 VARIANCE): scikit-learn's C."""


class MixFile(MembersFile):
    """What the file of a mix says; without weights they are learnt."""

    weights: tuple[FiniteFloat, ...] = ()
    scales: tuple[Annotated[FiniteFloat, Field(gt=0)], ...] = ()


class Mix(Company):
    """The weighted sum of scores, of the members that a TOML file names.

    Each member's scores are divided by its scale. Without `weights` in the file, scales and weights
    are learnt on the users' past choices (rows with split adapt): the scale is the root mean square
    of a member's differences, chosen − rejected, and the weights those of a logistic regression on
    them without intercept, with the penalty |w|²/2. A response that one member leaves unscored is
    unscored, with the member's name.
    """

    kind, judges = MixFile, False

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        super().__init__(spec, session, settings)
        given, n = (self.content.weights, self.content.scales), len(self.members)
        if any(numbers and len(numbers) != n for numbers in given):
            raise SpecError(f"{self.file}: expected {n} weights, and as many scales")
        if given[1] and not given[0]:
            raise SpecError(f"{self.file}: scales go with weights, as both are learnt otherwise")
        self.learns = not given[0]  # on past choices
        self.by = "learnt weights" if self.learns else "given weights"
        self.weights = tuple(map(Estimate, given[0]))
        self.scales = given[1] or (1.0,) * n
        self.learnt: dict[str, int | str] | None = None
        self.info = self.info_of("mix", given, VARIANCE, log_odds=self.learns)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield the weighted sums."""
        return self.each("score", slates)

    def need_weights(self) -> None:
        """Raise `UsageError` where weights are still to be learnt."""
        if not self.weights:
            raise UsageError(
                f"{self.canonical}: weights are learnt where data are evaluated; to use them here, "
                f"write them into {self.file}: weights = […], scales = […]"
            )

    def joined(self, given: Sequence[Scores]) -> Scores:
        """Return the weighted sums of the members' scores."""
        self.need_weights()
        factors = np.array([weight.value for weight in self.weights], np.float64) / self.scales
        scores = np.array([each.values for each in given], np.float64)
        lost = [
            self.reason(
                each.reason(k) or "no score" if np.isnan(number) else None
                for number, each in zip(numbers, given, strict=True)
            )
            for k, numbers in enumerate(scores.T)
        ]
        sums = (factors[:, None] * scores).sum(axis=0).tolist()
        values = [None if why else total for why, total in zip(lost, sums, strict=True)]
        return Scores.of(values, lost, outage=any(each.outage for each in given))

    def like(self, other: Mix) -> Mix:
        """Return this mix with the weights of another of the same spec."""
        made = copy(self)
        made.weights, made.scales, made.learnt = other.weights, other.scales, other.learnt
        return made

    def taught(
        self, margins: FloatArray, users: NDArray[np.str_], questions: Ids, content: str
    ) -> Mix:
        """Return this mix with scales and weights that are learnt on past choices, by their hash.

        `margins` are chosen − rejected, rows × members, NaN where one is unscored. Raises
        `UsageError` where members score unlike users, or give all responses one score.
        """
        scored = np.isfinite(margins)
        whole = np.asarray(scored.all(axis=1))
        names = [member.name for member in self.members]
        known = zip(names, ({*users[column].tolist()} for column in scored.T), strict=True)
        for (name, mine), (other, theirs) in permutations(known, 2):
            if lacking := sorted(theirs - mine):
                raise UsageError(
                    f"{self.file}: weights need members of the same users: {name!r} scores no past "
                    f"choice of {lacking[0]!r}, whom {other!r} scores"
                )
        if not whole.any():
            raise UsageError(f"{self.file}: no past choice is scored by all members")
        scales = np.sqrt(np.mean(margins[whole] ** 2, axis=0)).tolist()
        if 0.0 in scales:
            name = names[scales.index(0.0)]
            raise UsageError(f"{self.file}: member {name!r} scores both answers alike, always")
        clusters = Clusters.of(users, questions=questions).take(whole)
        n, left_out = len(clusters), len(whole) - len(clusters)
        made = copy(self)
        made.learnt = {"rows": n, "users": clusters.n_users, "left_out": left_out, "hash": content}
        made.scales = tuple(scales)
        with one_blas_thread():
            made.weights = tuple(logistic_weights(margins[whole] / scales, clusters))
        return made


def logistic_weights(differences: FloatArray, clusters: Clusters) -> list[Estimate]:
    """Return the weight of each column: argmin over w of Σᵢ softplus(−dᵢ·w) + |w|²/(2 VARIANCE).

    Intervals are of a jackknife by user, and by question where users share some: without a cluster
    the weights move by one Newton step.
    """
    n, m = differences.shape
    mask = np.ones((1, n), dtype=bool)
    w: FloatArray = ridge_offsets(differences[None], mask, np.zeros((1, n)), VARIANCE)[0]
    p = expit(-differences @ w)
    slopes = p[:, None] * differences
    squares = (differences[:, :, None] * differences[:, None, :]).reshape(n, m * m)
    curves = (p * (1 - p))[:, None] * squares
    whole = curves.sum(axis=0).reshape(m, m) + np.eye(m) / VARIANCE

    def without(columns: Columns) -> FloatArray:
        if not columns:
            return w[None]
        slope = np.stack([added(columns, column) for column in slopes.T], axis=1)
        curve = np.stack([added(columns, column) for column in curves.T], axis=1)
        left = whole - curve.reshape(-1, m, m)
        return np.asarray(w - np.linalg.solve(left, slope[..., None])[..., 0])

    def spread(k: int) -> Spread:
        return jackknife(lambda columns: without(columns)[:, k], np.ones(n), clusters)

    far = unbounded(w)
    return [interval(float(w[k]), spread(k), 0.0, (-far, far)) for k in range(m)]
