"""The rows of a curve, their users and couples, and a point's figures on each group of users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.benchmarks import Dataset, couple_votes
from palate.metrics import Clusters, Estimate
from palate.records import user_key
from palate.uses.learning_curve.points import Point, Shots
from palate.uses.learning_curve.scoring import Scored, credit
from palate.uses.units import Doubles, PairUnits


class Groups:
    """Rows, users and couples of all users, of those trained on and of those held out.

    `choices` is how many each user has; `trained_on` holds the keys of each model's users.
    """

    def __init__(
        self,
        pairs: Dataset,
        kept: NDArray[np.int64],
        choices: Mapping[str, int],
        trained_on: Mapping[str, frozenset[str]],
        seed: int,
    ) -> None:
        judged = [pairs.pairs[row] for row in kept]
        users, self.user = np.unique([p.user_id for p in judged], return_inverse=True)
        self.choices = np.array([choices[name] for name in users])
        place = {pair.id: k for k, pair in enumerate(judged)}
        mirror_row = couple_votes(pairs, seed)
        both = [(k, place[mirror_row[a]]) for a, k in place.items() if mirror_row.get(a) in place]
        units = PairUnits(judged, [(a, b) for a, b in both if a < b])
        self.clusters = units.clusters.take(np.argsort(units.order))
        self.couples, self.couple_clusters = units.order[units.couples], units.couple_clusters
        keys = [user_key(name) for name in users]
        self.trained = {
            name: np.array([key in known for key in keys]) for name, known in trained_on.items()
        }

    def points(
        self, model: str, shots: Shots, scored: Scored, base: Scored, reference: Scored | None
    ) -> Iterator[Point]:
        """Yield a model's point of each group, of its users with as many choices."""
        enough = self.choices >= (0 if shots == "all" else shots)
        for group, members in self._members(model).items():
            inside = members & enough
            rows = inside[self.user]
            if not rows.any():
                continue
            values, clusters = scored.values[rows], self.clusters.take(np.flatnonzero(rows))
            mirrored = concordance = residual = None
            a, b, of_couples = self._couples_of(inside)
            if len(a):
                both = (scored.values[a] + scored.values[b]) / 2
                mirrored = metrics.clustered_mean(both, of_couples)
                scaled = scored.margins / scored.confidence
                moved = [metrics.concordance_values(m[a], -m[b]) for m in scaled]
                concordance = metrics.clustered_mean(np.mean(moved, axis=0), of_couples)
                own = credit(scored.margins - base.margins)
                residual = metrics.clustered_mean((own[a] + own[b]) / 2, of_couples)
            gain, p_gain = _difference(scored, None if scored is base else base, rows, clusters)
            lead, p_lead = _difference(scored, reference, rows, clusters)
            yield Point(
                model=model,
                group=group,
                shots=shots,
                n_users=int(inside.sum()),
                n_pairs=int(rows.sum()),
                accuracy=metrics.clustered_mean(values, clusters),
                mirrored_accuracy=mirrored,
                concordance=concordance,
                residual_accuracy=residual,
                gain=gain,
                p_gain=p_gain,
                gain_over_reference=lead,
                p_gain_over_reference=p_lead,
            )

    def baseline(self, name: str, values: Doubles) -> Iterator[Point]:
        """Yield the points of the groups that all models agree on, from each row's credit."""
        there = ~np.isnan(values)
        for group, members in self._members(None).items():
            rows = members[self.user] & there
            if not rows.any():
                continue
            a, b, of_couples = self._couples_of(members)
            both = (values[a] + values[b]) / 2
            # Anything else has read the couple's own votes, as the majority of the others has.
            blind = len(a) > 0 and bool((both == 0.5).all())
            yield Point(
                model=name,
                group=group,
                shots=None,
                n_users=len(np.unique(self.user[rows])),
                n_pairs=int(rows.sum()),
                accuracy=metrics.clustered_mean(values[rows], self.clusters.take(rows)),
                mirrored_accuracy=metrics.clustered_mean(both, of_couples) if blind else None,
            )

    def _members(self, model: str | None) -> dict[str, NDArray[np.bool_]]:
        trained = list(self.trained.values()) if model is None else [self.trained[model]]
        found = {"all": np.ones(len(self.choices), bool)}
        first = trained[0]
        if first.any() and not first.all() and all((t == first).all() for t in trained):
            found |= {"trained": first, "held_out": ~first}
        return found

    def _couples_of(
        self, users: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Clusters]:
        inside = users[self.user[self.couples]].all(axis=1)
        a, b = self.couples[inside].T
        return a, b, self.couple_clusters.take(np.flatnonzero(inside))


def _difference(
    scored: Scored, other: Scored | None, kept: NDArray[np.bool_], clusters: Clusters
) -> tuple[Estimate | None, float | None]:
    # The p of the t where users share questions.
    if other is None:
        return None, None
    values, others = scored.values[kept], other.values[kept]
    estimate = metrics.paired_difference(values, others, clusters)
    if clusters.items is not None:
        return estimate, estimate.p
    return estimate, metrics.sign_flip_test(values - others, clusters.users[0])
