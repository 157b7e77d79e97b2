"""Accuracy of scorers that know neither user nor question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate.embeddings.style import style_of
from palate.learning.methods.bradley_terry import fit_head
from palate.learning.personal.choices import Choices
from palate.learning.personal.folds import FOLDS, folds
from palate.metrics import Clusters, Estimate, accuracy
from palate.seeding import rng

MOST = 20_000
"""Test rows that the probe reads: the first so many."""
RIDGE = 1.0
PROBE = "style probe"
WARN_ABOVE = 0.6


class BlindScorers:
    """Gathers test rows one by one: lengths, style, user and question as numbers."""

    def __init__(self) -> None:
        self._longer: list[float] = []
        self._users: dict[str, int] = {}
        self._questions: dict[str, int] = {}
        self._codes: list[tuple[int, int]] = []
        self._styles: list[tuple[Any, Any]] = []

    def add(self, row: Mapping[str, Any]) -> None:
        """Read one row."""
        chosen, rejected = row["chosen"], row["rejected"]
        self._longer.append(0.5 + 0.5 * np.sign(len(chosen) - len(rejected)))
        user = self._users.setdefault(row["user_id"], len(self._users))
        question = self._questions.setdefault(row["question"], len(self._questions))
        self._codes.append((user, question))
        if len(self._styles) < MOST:
            self._styles.append((style_of(chosen), style_of(rejected)))

    def accuracies(self, seed: int) -> dict[str, Estimate]:
        """Return the accuracy of each scorer, clustered by user and question."""
        longer = np.array(self._longer)
        users, questions = np.array(self._codes).T
        rows = Clusters.of(users.tolist(), questions=questions.tolist())
        n = len(self._styles)
        probed = probe(np.array(self._styles), users[:n], questions[:n], seed)
        return {
            "longest": accuracy(longer, rows),
            "shortest": accuracy(1 - longer, rows),
            PROBE: accuracy(probed, rows.take(np.arange(len(probed)))),
        }


def probe(
    sides: NDArray[Any], users: NDArray[Any], questions: NDArray[Any], seed: int
) -> NDArray[np.float64]:
    """Return 1, ½ or 0 a row by a Bradley-Terry head, each question held out from its own fit.

    `sides` holds what is read of chosen and rejected (n × 2 × d); users and questions are codes.
    """
    n = len(sides)
    choices = Choices(
        np.concatenate([sides[:, 0], sides[:, 1]]),
        users,
        np.arange(n),
        np.arange(n, 2 * n),
        users=int(users.max()) + 1,
        question=np.tile(questions, 2),
    )
    fold = folds(choices, FOLDS, rng("blind", seed))
    margins = np.zeros(n)
    for k in range(FOLDS):
        tested, fitted = choices.take(fold == k), choices.take(fold != k)
        if len(tested) and len(fitted):
            margins[fold == k] = tested.differences @ fit_head(fitted, RIDGE)
    return 0.5 + 0.5 * np.sign(margins)
