"""Which choices are held out while a strength is chosen: whole questions, for all users at once.

A reward model is asked about new questions. Held out one by one, a choice leaves others' choices
between the same responses behind, and what merely remembers those responses looks best.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from palate.learning.personal.choices import Choices, Whole

FOLDS = 5
"""How many there are where a strength is chosen; methods that fit long hold out one of them."""


def folds(choices: Choices, n: int, stream: np.random.Generator) -> Whole:
    """Return the fold of each choice (n), from 0 to `n` − 1.

    A question's choices are in one fold, and folds are about equally large; the stream deals
    questions of one size. Where there are fewer than `n` questions, or one has more than two folds'
    worth of choices, choices are dealt one by one.

    >>> table = np.zeros((4, 1), np.float32)
    >>> sides = np.array([0, 0, 2, 2]), np.array([1, 1, 3, 3])
    >>> made = Choices(table, np.arange(4), *sides, users=4, question=np.array([0, 0, 1, 1]))
    >>> found = folds(made, 2, np.random.default_rng(0))
    >>> bool(found[0] == found[1] != found[2] == found[3])
    True
    """
    _, question_codes, counts = np.unique(
        choices.question_of_choice, return_inverse=True, return_counts=True
    )
    if len(counts) < n or counts.max() > max(1, 2 * len(choices) / n):
        return np.asarray(stream.permutation(len(choices)) % n, np.int64)
    order = stream.permutation(len(counts))
    # The largest first: folds come out even.
    order = order[np.argsort(-counts[order], kind="stable")]
    held = [(0, k) for k in range(n)]
    fold = np.empty(len(counts), np.int64)
    for question in order.tolist():
        size, k = held[0]
        fold[question] = k
        heapq.heapreplace(held, (size + int(counts[question]), k))
    return np.asarray(fold[question_codes])


def best_of(
    values: Sequence[float],
    choices: Choices,
    losses: Callable[[Choices, Choices], Iterable[float]],
    stream: np.random.Generator,
    times: int = FOLDS,
) -> float:
    """Return the value with the least loss, summed over the first `times` of five folds held out.

    `losses(kept, held out)` gives the loss of each value; the first of equal ones is taken.
    """
    of_choice = folds(choices, FOLDS, stream)
    total = np.zeros(len(values))
    for k in range(times):
        kept, held = choices.take(of_choice != k), choices.take(of_choice == k)
        if len(kept) and len(held):
            total += np.array([*losses(kept, held)])
    return values[int(total.argmin())]
