"""A personal model adapted to k choices of every user, and its margins on their pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import Dataset
from palate.curves.points import Count
from palate.embeddings import plain_item
from palate.personal import Choices, Trained, gather, take
from palate.records import Choice, Settings, user_key
from palate.scorers.states_wanted import drawn
from palate.seeding import shuffled

COMMON = 200
"""Pairs, the same for all users, on which a user's confidence is measured."""
Doubles = NDArray[np.float64]


class Rows(NamedTuple):
    """The pairs a curve is taken on, and their users."""

    rows: tuple[int, ...]
    """Positions in `Dataset.pairs`."""
    users: tuple[str, ...]
    user: NDArray[np.int64]
    """Of each row the position of its user in `users`."""


class Scored(NamedTuple):
    """One model at one number of choices."""

    values: Doubles
    """Credit of each row (1, ½, 0), averaged over repeats."""
    margins: Doubles
    """Of chosen over rejected (repeats × rows)."""
    confidence: Doubles
    """Root mean square margin of each row's user on one set of pairs (repeats × rows)."""


@dataclass(frozen=True)
class Vectors:
    """What one choice of embedders makes of the pairs."""

    items: NDArray[np.float32]
    """Of chosen and rejected (rows × 2 × d); NaN where a response is too long."""
    prompts: NDArray[np.float32] | None

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Which rows have all of their vectors."""
        found = np.isfinite(self.items).all(axis=(1, 2))
        if self.prompts is not None:
            found = found & np.isfinite(self.prompts).all(axis=1)
        return np.asarray(found)


def vectors_of(
    trained: Trained, pairs: Dataset, rows: Sequence[int], settings: Settings
) -> Vectors:
    """Return the vectors of both responses of these rows."""
    features = trained.features(settings)
    judged = [pairs.pairs[k] for k in rows]
    items = [plain_item(p.text, text) for p in judged for text in (p.chosen, p.rejected)]
    table = features.table(items).reshape(len(rows), 2, features.width)
    asked = features.prompts(items[::2]) if trained.model.needs_prompts else None
    return Vectors(table, asked)


class Learner:
    """One trained model that is adapted again and again, each time to other choices."""

    def __init__(
        self,
        trained: Trained,
        pairs: Dataset,
        kept: Rows,
        history: Mapping[str, Sequence[Choice]],
        settings: Settings,
    ) -> None:
        self.trained, self.kept, self.seed = trained, kept, settings.seed
        found = vectors_of(trained, pairs, kept.rows, settings)
        self.items, self.prompts = found.items, found.prompts
        features, needs = trained.features(settings), trained.model.needs_prompts
        gathered = gather(features, [history[user] for user in kept.users], prompts=needs)
        self.choices_left_out = gathered.n_too_long
        self.choices = trained.scaling.of_choices(gathered.choices)
        self.common = np.sort(
            np.array(shuffled(range(len(kept.user)), "scale", self.seed)[:COMMON])
        )

    def at(self, count: Count, repeats: int) -> Scored:
        """Return what the model says after `count` choices of each user, drawn `repeats` times."""
        margins, confidence = [], []
        for repeat in range(1 if count in (0, "all") else repeats):
            states = self.trained.model.adapt(self._drawn(count, repeat))
            scores = self.trained.score(take(states, self.kept.user), self.items, self.prompts)
            scores = scores.astype(np.float32)
            margins.append(scores[:, 0].astype(np.float64) - scores[:, 1])
            confidence.append(self._confidence(states))
        found = np.array(margins)
        return Scored(credit(found), found, np.array(confidence))

    def _drawn(self, count: Count, repeat: int) -> Choices:
        return self.choices.take(np.array(list(self._first(count, repeat)), np.int64))

    def _first(self, count: Count, repeat: int) -> Iterator[int]:
        for user, own in zip(self.kept.users, self.choices.rows_by_user(), strict=True):
            shots = None if count == "all" else count
            yield from drawn(own.tolist(), shots, self.seed, repeat, user_key(user))

    def _confidence(self, states: Mapping[str, NDArray[np.float32]]) -> Doubles:
        items = self.items[self.common]
        asked = None if self.prompts is None else self.prompts[self.common]
        roots = np.empty(len(self.kept.users))
        for k in range(len(roots)):
            same = take(states, np.full(len(items), k))
            scores = self.trained.score(same, items, asked)
            roots[k] = np.sqrt(np.mean((scores[:, 0] - scores[:, 1]) ** 2))
        return np.where(roots > 0, roots, 1.0)[self.kept.user]


def credit(margins: Doubles) -> Doubles:
    """Return each row's credit (1, ½, 0), averaged over repeats (the first axis)."""
    return np.asarray(np.mean((np.sign(margins) + 1) / 2, axis=0))
