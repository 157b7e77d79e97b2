"""Choices of many users over one table of vectors: all that a personal reward model learns from.

A reward model is asked about new questions, so whole questions are held out, for all users at once.
Held out one by one, a choice leaves others' choices between the same responses behind, and what
merely remembers those responses looks best.

A product of matrices rounds by the shape of both. What scores a response must not depend on which
others are scored with it, so `dots` and `slate_dots` sum each response's numbers in one order.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from palate.errors import DataError

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]
Reals = NDArray[np.floating]
FOLDS = 5
"""How many there are where a strength is chosen; methods that fit long hold out one of them."""
NUMBERS = 2**22
"""Numbers of wide vectors converted to float64 at a time (32 MiB)."""
BLOCK_NUMBERS = 2**25
"""Float32 numbers held at a time where users' choices are laid side by side (128 MiB)."""
ALIKE = 1.3
"""How many times as many choices a user of a block may have as the block's first."""
FLAT = 1e-6
"""A number that varies less than this over the training responses says nothing and becomes 0."""


class Block(NamedTuple):
    """Some users' choices side by side, padded to the longest."""

    users: Whole
    """Which users (u)."""
    differences: Floats
    """φ(chosen) − φ(rejected) (u × m × d); zeros where a user has fewer."""
    mask: Mask
    """True where there is a choice (u × m)."""


@dataclass(frozen=True)
class Choices:
    """n choices of `users` users over m responses; users without a choice count too.

    >>> table = np.eye(3, dtype=np.float32)
    >>> made = Choices(table, np.array([0, 0]), np.array([0, 1]), np.array([2, 2]), users=2)
    >>> made.differences.tolist(), made.counts.tolist()
    ([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]], [2, 0])
    """

    features: Floats
    """φ of every response (m × d)."""
    user: Whole
    """Whose choice each is (n), from 0 to `users` − 1."""
    chosen: Whole
    """Which response was chosen (n), as a row of `features`."""
    rejected: Whole
    """Which was not (n)."""
    users: int
    prompts: Floats | None = None
    """φ of the question that each response answers (m × d), for methods that need it."""
    question: Whole | None = None
    """Which question each response answers (m); None: each choice is on one of its own."""

    def __len__(self) -> int:
        return len(self.user)

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return int(self.features.shape[1])

    @property
    def question_of_choice(self) -> Whole:
        """Which question each choice answers (n)."""
        return np.arange(len(self)) if self.question is None else self.question[self.chosen]

    @cached_property
    def differences(self) -> Floats:
        """φ(chosen) − φ(rejected) of every choice (n × d)."""
        return self.features[self.chosen] - self.features[self.rejected]

    @cached_property
    def counts(self) -> Whole:
        """How many choices each user has (users)."""
        return np.bincount(self.user, minlength=self.users).astype(np.int64)

    def take(self, which: Mask | Whole) -> Choices:
        """Return some of the choices; the users stay."""
        return replace(
            self, user=self.user[which], chosen=self.chosen[which], rejected=self.rejected[which]
        )

    def of_users(self, users: Whole) -> Choices:
        """Return these users' choices; the first becomes user 0, and so on."""
        place = np.full(self.users, -1)
        place[users] = np.arange(len(users))
        chosen = self.take(place[self.user] >= 0)
        return replace(chosen, user=place[chosen.user], users=len(users))

    def rows_by_user(self) -> list[Whole]:
        """Return, per user, which choices are theirs, in the order of the data."""
        order = np.argsort(self.user, kind="stable").astype(np.int64)
        return np.split(order, np.cumsum(self.counts)[:-1]) if self.users else []

    def blocks(self, numbers: int = BLOCK_NUMBERS) -> Iterator[Block]:
        """Yield all users that have choices, those with equally many together."""
        rows = self.rows_by_user()
        for users in batches(self.counts, self.width, numbers, ALIKE):
            places, mask = side_by_side([rows[user] for user in users])
            differences = self.features[self.chosen[places]]
            differences -= self.features[self.rejected[places]]
            differences *= mask[..., None]
            yield Block(users, differences, mask)


def batches(counts: Whole, size: int, numbers: int, alike: float = np.inf) -> Iterator[Whole]:
    """Yield all users with choices, those with equally many together, as many as have room.

    A choice, or padding in its place, takes `size` numbers; nobody has more than `alike` times as
    many choices as the batch's first.
    """
    waiting: list[int] = []
    for user in [int(u) for u in np.argsort(counts, kind="stable") if counts[u]]:
        padded = (len(waiting) + 1) * int(counts[user]) * size
        if waiting and (padded > numbers or counts[user] > alike * counts[waiting[0]]):
            yield np.array(waiting)
            waiting = []
        waiting.append(user)
    if waiting:
        yield np.array(waiting)


def side_by_side(rows: Sequence[Whole]) -> tuple[Whole, Mask]:
    """Return sequences padded with 0 to the longest (at least 1), and where they are no padding."""
    longest = max([1, *map(len, rows)])
    places, mask = np.zeros((len(rows), longest), np.int64), np.zeros((len(rows), longest), bool)
    for k, listed in enumerate(rows):
        places[k, : len(listed)], mask[k, : len(listed)] = listed, True
    return places, mask


class Scaling(NamedTuple):
    """φ → (φ − mean) · scale, so that each source's vectors have mean square length 1.

    Within a source every number has the same variance; so one ridge suits all, and a source of
    sixteen counts weighs as much as one of four thousand hidden states.
    """

    mean: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, table: Floats, widths: Sequence[int]) -> Scaling:
        """Measure on the training responses (m × d); `widths` are the sources'."""
        rows = table.astype(np.float64)
        spread = rows.std(axis=0)
        unit = np.concatenate([np.full(w, 1 / np.sqrt(w * len(widths))) for w in widths])
        scale = np.where(spread > FLAT, unit / np.maximum(spread, FLAT), 0.0)
        return cls(rows.mean(axis=0).astype(np.float32), scale.astype(np.float32))

    def apply(self, table: Floats) -> Floats:
        """Return the scaled vectors; raises `DataError` for another width."""
        if table.shape[-1] != len(self.mean):
            raise DataError(
                f"vectors of width {table.shape[-1]}, and the model was trained on "
                f"{len(self.mean)}: another embedder?"
            )
        return np.asarray((table - self.mean) * self.scale, np.float32)

    def of_choices(self, choices: Choices) -> Choices:
        """Return choices with scaled vectors."""
        asked = None if choices.prompts is None else self.apply(choices.prompts)
        return replace(choices, features=self.apply(choices.features), prompts=asked)


def folds(choices: Choices, n: int, stream: np.random.Generator) -> Whole:
    """Return the fold of each choice (n), from 0 to `n` − 1.

    A question's choices are in one fold, and folds are about equally large; the stream deals
    questions of one size. Where there are fewer than `n` questions, or one has more than two folds'
    worth of choices, choices are dealt one by one.

    >>> table = np.zeros((4, 1), np.float32)
    >>> sides = np.array([0, 0, 2, 2]), np.array([1, 1, 3, 3])
    >>> made = Choices(table, np.arange(4), *sides, users=4, question=np.array([0, 0, 1, 1]))
    >>> a, b, c, d = folds(made, 2, np.random.default_rng(0))
    >>> bool(a == b != c == d)
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


def dots(vectors: Reals, heads: Doubles) -> Doubles:
    """Return the product of each vector (… × d) with a head (d), or with several (k × d → … × k).

    >>> dots(np.ones((1, 2, 3)), np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]])).tolist()
    [[[6.0, 1.0], [6.0, 1.0]]]
    """
    subscripts = "...d,d->..." if heads.ndim == 1 else "...d,kd->...k"
    return np.asarray(np.einsum(subscripts, _laid_out(vectors), _laid_out(heads)))


def slate_dots(vectors: Reals, heads: Doubles) -> Doubles:
    """Return the product of a slate's vectors (s × c × d) with the slate's head (s × d), s × c."""
    return np.asarray(np.einsum("scd,sd->sc", _laid_out(vectors), _laid_out(heads)))


def _laid_out(array: Reals) -> Doubles:
    # Sums run in the order of memory, and what was saved and loaded may lie otherwise.
    return np.ascontiguousarray(array, np.float64)


def pieces(count: int, width: int) -> Iterator[slice]:
    """Yield slices of `count` rows, each of at most `NUMBERS` numbers.

    >>> list(pieces(3, 2**21))
    [slice(0, 2, None), slice(2, 4, None)]
    """
    size = max(1, NUMBERS // max(1, width))
    for first in range(0, count, size):
        yield slice(first, first + size)


def along(choices: Choices, basis: Doubles) -> Doubles:
    """Return V'(φ(chosen) − φ(rejected)) of every choice (n × B) for a basis V (d × B)."""
    seen = np.empty((len(choices), basis.shape[1]))
    for piece in pieces(len(choices), choices.width):
        chosen, rejected = choices.chosen[piece], choices.rejected[piece]
        rows = choices.features[chosen] - choices.features[rejected]
        seen[piece] = rows.astype(np.float64) @ basis
    return seen


def narrowed(choices: Choices, rows: Doubles) -> Choices:
    """Return choices of the same users whose differences are `rows` (n × B)."""
    n = len(choices)
    table = np.zeros((n + 1, rows.shape[1]), np.float32)
    table[:n] = rows
    return Choices(table, choices.user, np.arange(n), np.full(n, n), choices.users)


def sums_by_user(choices: Choices) -> Any:
    """Return the sparse matrix (users × n) that adds up what belongs to a user."""
    n = len(choices)
    return csr_array((np.ones(n), (choices.user, np.arange(n))), shape=(choices.users, n))
