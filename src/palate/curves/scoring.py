"""A personal model adapted to k choices of every user, and its margins on their pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.curves.points import Shots
from palate.evaluation import KeepsStates, Rows, root_margins
from palate.records import (
    Choice,
    Component,
    Scorer,
    Scores,
    components_of,
    read_by,
    traits_of,
    user_key,
)
from palate.scorers.states_wanted import drawn
from palate.seeding import shuffled

COMMON_PAIRS = 200
"""Pairs, the same for all users, on which a user's confidence is measured."""
Doubles = NDArray[np.float64]


class Scored(NamedTuple):
    """One model at one number of choices."""

    values: Doubles
    """Credit of each row (1, ½, 0), averaged over repeats."""
    margins: Doubles
    """Of chosen over rejected (repeats × rows)."""
    confidence: Doubles
    """Root mean square margin of each row's user on one set of pairs (repeats × rows)."""


class Learner:
    """One model that is adapted again and again, each time to other choices.

    What no state changes is read once: the vectors of the rows' responses, the numbers of a
    component without a user, and all of a model whose states came out as they did before.
    """

    def __init__(
        self, name: str, model: KeepsStates, rows: Rows, history: Mapping[str, Sequence[Choice]],
        seed: int,
    ) -> None:  # fmt: skip
        self.name, self.rows, self.history, self.seed = name, rows, history, seed
        self.slates = [rows.slate(k) for k in range(len(rows))]
        first = np.array([rows.chosen_position(k) for k in range(len(rows))]) == 0
        self._side = np.where(first, 1.0, -1.0)
        holding = getattr(model, "holding", None)
        self.model: KeepsStates = model if holding is None else holding(self.slates)
        self.choices_left_out = 0
        self._shared: dict[str, list[Scores]] = {}
        self._margins: dict[str, Doubles] = {}
        self._roots: dict[str, Mapping[str, float]] = {}

    def margins(self, shots: Shots, repeat: int = 0) -> Doubles:
        """Return each row's margin of chosen over rejected; NaN where a response has no score."""
        return self._margins_of(self._adapted(shots, repeat))

    def at(self, shots: Shots, repeats: int, kept: NDArray[np.int64]) -> Scored:
        """Return what the model says of these rows, the choices drawn `repeats` times."""
        margins, confidence = [], []
        for repeat in range(1 if shots in (0, "all") else repeats):
            adapted = self._adapted(shots, repeat)
            margins.append(self._margins_of(adapted)[kept])
            roots = self._roots_of(adapted, kept)
            confidence.append([roots[self.slates[k].user or ""] for k in kept])
        found = np.array(margins)
        return Scored(credit(found), found, np.array(confidence))

    def _adapted(self, shots: Shots, repeat: int) -> Scorer:
        k = None if shots == "all" else shots
        adapted = self.model.adapted({
            user: drawn(listed, k, self.seed, repeat, user_key(user))
            for user, listed in self.history.items()
        })  # fmt: skip
        assert isinstance(adapted, Scorer)
        lost: int = getattr(getattr(adapted, "users", None), "n_too_long", 0)
        self.choices_left_out = max(self.choices_left_out, lost)
        return adapted

    def _margins_of(self, adapted: Scorer) -> Doubles:
        made = traits_of(adapted, self.name).fingerprint
        if made not in self._margins:
            parts = [self._scores(part) for part in components_of(adapted)]
            combine = getattr(adapted, "combine", None)
            rows = zip(*parts, strict=True)
            each = [combine(row) if combine is not None else row[0] for row in rows]
            first, second = np.array([scores.values for scores in each], np.float64).T
            tied = first.astype(np.float32) == second.astype(np.float32)
            self._margins[made] = np.where(tied, 0.0, first - second) * self._side
        return self._margins[made]

    def _scores(self, part: Component) -> list[Scores]:
        traits = traits_of(part.scorer, self.name)
        known = self._shared.get(traits.fingerprint)
        if known is None:
            assert isinstance(part.scorer, Scorer)
            read = [read_by(part.scorer, slate) for slate in self.slates]
            distinct = list({slate.id: slate for slate in read}.values())
            found = dict(part.scorer.score(distinct))
            by = {slate.id: found[k] for k, slate in enumerate(distinct)}
            known = [by[slate.id] for slate in read]
            if not traits.needs_user:
                self._shared[traits.fingerprint] = known
        return known

    def _roots_of(self, adapted: Scorer, kept: NDArray[np.int64]) -> Mapping[str, float]:
        made = traits_of(adapted, self.name).fingerprint
        if made not in self._roots:
            n = getattr(adapted, "scale_pairs", COMMON_PAIRS)
            common = sorted(shuffled(kept.tolist(), "scale", self.seed)[:n])
            users = sorted({self.slates[k].user or "" for k in kept})
            self._roots[made] = root_margins(adapted, [self.rows.bare(k) for k in common], users)
        return self._roots[made]


def credit(margins: Doubles) -> Doubles:
    """Return each row's credit (1, ½, 0), averaged over repeats (the first axis)."""
    return np.asarray(np.mean((np.sign(margins) + 1) / 2, axis=0))
