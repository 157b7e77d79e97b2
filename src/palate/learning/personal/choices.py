"""Choices of many users over one table of vectors: all that a personal reward model learns from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.errors import DataError

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Whole = NDArray[np.int64]
BLOCK_NUMBERS = 2**25
"""Float32 numbers held at a time where users' choices are laid side by side (128 MiB)."""

ALIKE = 1.3
"""How many times as many choices a user of a block may have as the block's first."""


class Block(NamedTuple):
    """Some users' choices side by side, padded to the longest."""

    users: Whole
    """Which users (u)."""
    differences: Floats
    """φ(chosen) − φ(rejected) (u × m × d); zeros where a user has fewer."""
    mask: NDArray[np.bool_]
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

    def __post_init__(self) -> None:
        """Refuse what does not fit together; raises `DataError`."""
        n, m = len(self.user), len(self.features)
        if len(self.chosen) != n or len(self.rejected) != n:
            raise DataError("choices: users, chosen and rejected differ in number")
        if n and not (self.user.min() >= 0 and self.user.max() < self.users):
            raise DataError("choices: a user is out of range")
        for rows in (self.chosen, self.rejected):
            if n and not (rows.min() >= 0 and rows.max() < m):
                raise DataError("choices: a response is out of range")
        if not np.isfinite(self.features).all():
            raise DataError("choices: a vector is not finite")
        if self.prompts is not None and len(self.prompts) != m:
            raise DataError("choices: prompts and responses differ in number")
        if self.question is not None and len(self.question) != m:
            raise DataError("choices: questions and responses differ in number")

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

    def take(self, which: NDArray[np.bool_] | Whole) -> Choices:
        """Return some of the choices; the users stay."""
        return replace(
            self, user=self.user[which], chosen=self.chosen[which], rejected=self.rejected[which]
        )

    def of_users(self, users: Whole) -> Choices:
        """Return these users' choices; the first becomes user 0, and so on."""
        place = np.full(self.users, -1)
        place[users] = np.arange(len(users))
        kept = self.take(place[self.user] >= 0)
        return replace(kept, user=place[kept.user], users=len(users))

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

    A choice, or padding in its place, takes `each` numbers; nobody has more than `alike` times as
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


def side_by_side(rows: Sequence[Whole]) -> tuple[Whole, NDArray[np.bool_]]:
    """Return sequences padded with 0 to the longest (at least 1), and where they are no padding."""
    longest = max([1, *(len(own) for own in rows)])
    places, mask = np.zeros((len(rows), longest), np.int64), np.zeros((len(rows), longest), bool)
    for k, own in enumerate(rows):
        places[k, : len(own)], mask[k, : len(own)] = own, True
    return places, mask
