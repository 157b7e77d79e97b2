"""Learning curves as a result: a model adapted to k choices of every user, and its figures."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.benchmarks import Dataset, couple_votes
from palate.evaluation import COMMON_PAIRS, ContextRows, HasStates, root_margins
from palate.metrics import Estimate
from palate.metrics.means import Units
from palate.records import (
    Choice,
    Component,
    Record,
    Scorer,
    Scores,
    components_of,
    info_of,
    prepared_slates,
    results_of,
    user_key,
)
from palate.scorers.personal import Personal, ResponseVectors
from palate.scorers.state_options import draw_choices
from palate.seeding import shuffled
from palate.uses.result import Cell, CellResult, CellSummary
from palate.uses.units import Doubles, PairUnits

Shots = int | Literal["all"]
"""Choices per user; `all` where every choice a user has is used."""


class Point(Record):
    """One model at one number of choices on one group of users."""

    model: str
    group: str
    """`all`, or `trained` and `held_out` where a model was trained on some of the users only."""
    shots: Shots | None
    """None for a baseline, which is told nothing of the user."""
    n_users: int
    n_pairs: int
    accuracy: Estimate
    """On every pair of the group's users, each repeat's outcome averaged first."""
    mirrored_accuracy: Estimate | None
    """On couples of two such users; its p is of 0.5, what any model blind to the user gets."""
    concordance: Estimate | None = None
    residual_accuracy: Estimate | None = None
    """On couples, of the score minus the prior's: what this user likes more than people do."""
    gain: Estimate | None = None
    """Over 0 choices, paired."""
    p_gain: float | None = None
    """Of no gain: the t of the interval, or sign flips by user where no question is shared."""
    gain_over_reference: Estimate | None = None
    """Over the bradley-terry model of the same vectors, paired."""
    p_gain_over_reference: float | None = None
    """Of no such gain, likewise."""
    p_gain_over_reference_holm: float | None = None
    """Holm-corrected over the models of one group and number of choices."""


class CurveSummary(CellSummary[Cell]):
    """The points of every model, and what could not be used; a cell is a model or a baseline."""

    points: tuple[Point, ...]
    references: Mapping[str, str]
    """By model, the one that its gain over a reference is taken over."""
    pairs_left_out: int
    """Pairs with a response too long for a model; left out of every model's points."""
    choices_left_out: int
    """Earlier choices with such a response, of the model that has most of them."""


class LearningCurve(CellResult[CurveSummary]):
    """The learning curves of one or several models on one benchmark.

    A column is a row's credit by one model at one number of choices: 1 chosen, ½ tie, 0 rejected,
    mean over draws.
    """

    kind: ClassVar[str] = "learning-curve"
    content_type = CurveSummary
    predicted = False

    @property
    def points(self) -> tuple[Point, ...]:
        """The points of every model."""
        return self.summary.points


class Scored(NamedTuple):
    """One model at one number of choices."""

    values: Doubles
    """Credit of each row (1, ½, 0), averaged over repeats."""
    margins: Doubles
    """Of chosen over rejected (repeats × rows)."""
    confidence: Doubles
    """Root mean square margin of each row's user on one set of pairs (repeats × rows)."""


def credit(margins: Doubles) -> Doubles:
    """Return each row's credit (1, ½, 0), averaged over repeats (the first axis)."""
    return np.asarray(np.mean((np.sign(margins) + 1) / 2, axis=0))


class Groups:
    """Rows, users and couples of all users, of those trained on and of those held out.

    `judged` are the rows of the curve.
    """

    def __init__(
        self,
        pairs: Dataset,
        judged: NDArray[np.int64],
        choices: Mapping[str, Sequence[Choice]],
        scorers: Mapping[str, HasStates],
        seed: int,
    ) -> None:
        rows = [pairs.pairs[row] for row in judged]
        users, self.user = np.unique([pair.user_id for pair in rows], return_inverse=True)
        self.choices = np.array([len(choices[name]) for name in users])
        place, mirror = {pair.id: k for k, pair in enumerate(rows)}, couple_votes(pairs, seed)
        both = [(k, place[mirror[a]]) for a, k in place.items() if mirror.get(a) in place]
        units = PairUnits(rows, [(a, b) for a, b in both if a < b])
        in_order = units.pairs.clusters.take(np.argsort(units.pairs.rows[0]))
        self.rows, self.couples = Units((np.arange(len(rows)),), in_order), units.couples
        keys = [user_key(name) for name in users]
        self.trained = {}
        for name, scorer in scorers.items():
            trained_on = getattr(scorer, "trained_on", ())
            self.trained[name] = np.array([key in trained_on for key in keys])

    def points(
        self, model: str, shots: Shots, scored: Scored, base: Scored, reference: Scored | None
    ) -> Iterator[Point]:
        """Yield a model's point of each group, of its users with as many choices."""
        enough = self.choices >= (0 if shots == "all" else shots)
        for group, members in self._members(self.trained[model]).items():
            inside = (members & enough)[self.user]
            if not inside.any():
                continue
            units, couples = self.rows.within(inside), self.couples.within(inside)
            a, b = couples.rows
            of_couples: dict[str, Estimate | None] = {"mirrored_accuracy": None}
            if a.size:
                scaled = scored.margins / scored.confidence
                by_repeat = [metrics.concordance_values(m[a], -m[b]) for m in scaled]
                values = {
                    "mirrored_accuracy": couples.values(scored.values),
                    "concordance": np.mean(by_repeat, axis=0),
                    "residual_accuracy": couples.values(credit(scored.margins - base.margins)),
                }
                of_couples = {
                    name: metrics.clustered_mean(x, couples.clusters) for name, x in values.items()
                }
            level = {**self._level(units, scored.values), **of_couples}
            over = {"gain": None if scored is base else base, "gain_over_reference": reference}
            for name, other in over.items():
                if other is not None:
                    level[name], level[f"p_{name}"] = _difference(scored, other, units)
            yield Point(model=model, group=group, shots=shots, **level)

    def baseline(self, name: str, values: Doubles) -> Iterator[Point]:
        """Yield the points of the groups that all models agree on, from each row's credit."""
        for group, members in self._members(*self.trained.values()).items():
            inside = members[self.user] & ~np.isnan(values)
            if not inside.any():
                continue
            level = self._level(self.rows.within(inside), values)
            couples = self.couples.within(members[self.user])
            of_couples = couples.values(values)
            # Anything else has read the couple's own votes, as the majority of the others has.
            blind = of_couples.size > 0 and bool((of_couples == 0.5).all())
            mirrored = metrics.clustered_mean(of_couples, couples.clusters) if blind else None
            yield Point(model=name, group=group, shots=None, **level, mirrored_accuracy=mirrored)

    def _level(self, units: Units, values: Doubles) -> dict[str, Any]:
        (rows,) = units.rows
        accuracy = metrics.clustered_mean(units.values(values), units.clusters)
        n_users = len(np.unique(self.user[rows]))
        return {"n_users": n_users, "n_pairs": len(rows), "accuracy": accuracy}

    def _members(self, *trained: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
        """Return all users; apart, where models were trained on the same some of them."""
        groups, first = {"all": np.ones(len(self.choices), bool)}, trained[0]
        if first.any() and not first.all() and all((t == first).all() for t in trained):
            groups |= {"trained": first, "held_out": ~first}
        return groups


def _difference(scored: Scored, other: Scored, units: Units) -> tuple[Estimate, float | None]:
    # The p of the t where users share questions.
    values, others = units.values(scored.values), units.values(other.values)
    estimate = metrics.paired_difference(values, others, units.clusters)
    if units.clusters.items is not None:
        return estimate, estimate.p
    return estimate, metrics.sign_flip_test(values - others, units.clusters.users[0])


class Slates:
    """The pairs of a curve, of which what no user's state changes is read once for all points."""

    def __init__(self, rows: ContextRows) -> None:
        self.rows = rows
        self.slates = [rows.slate(k) for k in range(len(rows))]
        self.users = [slate.user or "" for slate in self.slates]
        self._side = [1 if rows.chosen_position(k) == 0 else -1 for k in range(len(rows))]
        self._vectors: dict[tuple[str, bool], ResponseVectors] = {}
        self._scores: dict[str, list[Scores]] = {}

    def margins(self, scorer: Scorer, name: str) -> Doubles:
        """Return each row's margin of chosen over rejected; NaN where a response has no score."""
        scores: Doubles
        if isinstance(scorer, Personal):
            key = scorer.features.fingerprint, scorer.trained.model.needs_prompts
            if key not in self._vectors:
                self._vectors[key] = scorer.vectors(self.slates, 2)
            scores = scorer.scores(self._vectors[key], self.users)
        else:
            parts = zip(*(self._of(part, name) for part in components_of(scorer)), strict=True)
            combine = getattr(scorer, "combine", operator.itemgetter(0))
            scores = np.array([combine(row).values for row in parts], np.float64)
        # As float32, in which two scores may be tied.
        first, second = scores.astype(np.float32).T
        return np.asarray((first.astype(np.float64) - second) * self._side)

    def _of(self, part: Component, name: str) -> list[Scores]:
        info = info_of(part.scorer, name)
        if info.fingerprint in self._scores:
            return self._scores[info.fingerprint]
        assert isinstance(part.scorer, Scorer)
        results = dict(results_of(part.scorer, prepared_slates(part.scorer, self.slates)))
        every = (results[k] for k in range(len(self.slates)))
        scores = [result for result in every if isinstance(result, Scores)]
        if not info.needs_user:
            self._scores[info.fingerprint] = scores
        return scores


@dataclass
class Learner:
    """One model that is adapted again and again, each time to other choices."""

    name: str
    model: HasStates
    pairs: Slates
    history: Mapping[str, Sequence[Choice]]
    seed: int
    choices_left_out: int = 0
    _margins: dict[str, Doubles] = field(default_factory=dict)

    def margins(self, shots: Shots, repeat: int = 0) -> Doubles:
        """Return every row's margin after so many choices of each user."""
        return self._margins_of(self._adapted(shots, repeat))

    def at(self, shots: Shots, repeats: int, rows: NDArray[np.int64]) -> Scored:
        """Return what the model says of these rows, the choices drawn `repeats` times."""
        n = getattr(self.model, "scale_pairs", COMMON_PAIRS)
        common = sorted(shuffled(rows.tolist(), "scale", self.seed)[:n])
        bare = [self.pairs.rows.bare(k) for k in common]
        users = [self.pairs.users[k] for k in rows]
        margins, confidence = [], []
        for repeat in range(1 if shots in (0, "all") else repeats):
            adapted = self._adapted(shots, repeat)
            margins.append(self._margins_of(adapted)[rows])
            roots = root_margins(adapted, bare, sorted(set(users)))
            confidence.append([roots[user] for user in users])
        return Scored(credit(np.array(margins)), np.array(margins), np.array(confidence))

    def _adapted(self, shots: Shots, repeat: int) -> Scorer:
        k = None if shots == "all" else shots
        adapted = self.model.adapted(
            {
                user: draw_choices(listed, k, self.seed, repeat, user_key(user))
                for user, listed in self.history.items()
            }
        )
        assert isinstance(adapted, Scorer)
        lost: int = getattr(getattr(adapted, "users", None), "n_too_long", 0)
        self.choices_left_out = max(self.choices_left_out, lost)
        return adapted

    def _margins_of(self, adapted: Scorer) -> Doubles:
        # States may come out as before: every one of bradley-terry does.
        made = info_of(adapted, self.name).fingerprint
        if made not in self._margins:
            self._margins[made] = self.pairs.margins(adapted, self.name)
        return self._margins[made]
