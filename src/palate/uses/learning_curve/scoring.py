"""A personal model adapted to k choices of every user, and its margins on their pairs."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.evaluation import COMMON_PAIRS, ContextRows, HasStates, root_margins
from palate.records import (
    Choice,
    Component,
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
from palate.uses.learning_curve.points import Shots
from palate.uses.units import Doubles


class Scored(NamedTuple):
    """One model at one number of choices."""

    values: Doubles
    """Credit of each row (1, ½, 0), averaged over repeats."""
    margins: Doubles
    """Of chosen over rejected (repeats × rows)."""
    confidence: Doubles
    """Root mean square margin of each row's user on one set of pairs (repeats × rows)."""


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
        scores: NDArray[np.float64]
        if isinstance(scorer, Personal):
            scores = scorer.scores(self._read(scorer), self.users)
        else:
            parts = zip(*(self._of(part, name) for part in components_of(scorer)), strict=True)
            combine = getattr(scorer, "combine", operator.itemgetter(0))
            scores = np.array([combine(row).values for row in parts], np.float64)
        # As float32, in which two scores may be tied.
        first, second = scores.astype(np.float32).T
        return np.asarray((first.astype(np.float64) - second) * self._side)

    def _read(self, scorer: Personal) -> ResponseVectors:
        key = scorer.features.fingerprint, scorer.trained.model.needs_prompts
        if key not in self._vectors:
            self._vectors[key] = scorer.vectors(self.slates, 2)
        return self._vectors[key]

    def _of(self, part: Component, name: str) -> list[Scores]:
        info = info_of(part.scorer, name)
        known = self._scores.get(info.fingerprint)
        if known is None:
            assert isinstance(part.scorer, Scorer)
            prepared = prepared_slates(part.scorer, self.slates)
            results = dict(results_of(part.scorer, prepared))
            every = (results[k] for k in range(len(self.slates)))
            known = [it for it in every if isinstance(it, Scores)]
            if not info.needs_user:
                self._scores[info.fingerprint] = known
        return known


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
        found = np.array(margins)
        return Scored(credit(found), found, np.array(confidence))

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


def credit(margins: Doubles) -> Doubles:
    """Return each row's credit (1, ½, 0), averaged over repeats (the first axis)."""
    return np.asarray(np.mean((np.sign(margins) + 1) / 2, axis=0))
