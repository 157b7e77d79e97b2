"""The split of users: those a policy is trained on, and those held out to look at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from palate.benchmarks import Dataset
from palate.benchmarks.dataset import as_mirrored
from palate.errors import DataError, UsageError
from palate.records import Question, normal_form
from palate.seeding import digest, shuffled

NAMED = 3
"""Users or rows that an error names."""


class UserSplit(NamedTuple):
    """Rows of different users."""

    train: Dataset
    held_out: Dataset

    @property
    def shared_questions(self) -> int:
        """Held-out rows whose question other users asked in training."""
        trained_on = {row.normal_key for row in self.train.rows}
        return sum(row.normal_key in trained_on for row in self.held_out.rows)


def hold_out(pairs: Dataset, users: int, seed: int, *, couples: bool = False) -> UserSplit:
    """Hold out the rows of so many users, drawn by the seed.

    With `couples` users are drawn by mirrored couples, and only the couples of two held-out users
    are looked at; their other rows are in neither part.

    Raises `UsageError` where nobody would be left to train on, or held out.
    """
    names = list(dict.fromkeys(row.user_id for row in pairs.rows))
    if not 1 <= users < len(names):
        raise UsageError(
            f"--held-out {users}: expected 1 to {len(names) - 1} of the {len(names)} users of "
            f"{pairs.name}, whose rows are then not trained on"
        )
    if couples:
        each = [[pairs.rows[k].user_id for k in couple] for couple in pairs.couples]
        order = [name for couple in shuffled(each, "held out", seed) for name in couple]
        if len({*order}) < users:
            raise UsageError(
                f"--held-out {users}: {pairs.name} has mirrored couples of {len({*order})} users"
            )
    else:
        order = shuffled(names, "held out", seed)
    apart = set(list(dict.fromkeys(order))[:users])
    train = [row for row in pairs.rows if row.user_id not in apart]
    held_out = [row for row in pairs.rows if row.user_id in apart]
    if couples:
        there = {row.id for row in held_out}
        held_out = [row for row in held_out if getattr(row, "mirror_of", None) in there]
        if not held_out:
            raise UsageError(
                f"--held-out {users}: no mirrored couple of {pairs.name} is of held-out users; "
                "hold out 2 or more, from rows in couples"
            )
    everyone = pairs.everyone or pairs.rows
    parts = (
        as_mirrored(replace(pairs, rows=tuple(rows), everyone=everyone))
        for rows in (train, held_out)
    )
    return UserSplit(*parts)


def refuse_shared(split: UserSplit) -> UserSplit:
    """Return the split; raises `DataError` where both parts hold a row, a user or one's posts.

    Ids differ between releases of a data set; what people wrote does not.
    """
    of: Mapping[str, Callable[[Question], str | None]] = {
        "rows": lambda row: row.id,
        "users": lambda row: row.user_id,
        "users by all that they wrote": _profile,
    }
    for what, name in of.items():
        trained_on = {name(row) for row in split.train.rows} - {None}
        both = [row for row in split.held_out.rows if name(row) in trained_on]
        if both:
            named = [row.id if what == "rows" else row.user_id for row in both]
            named = list(dict.fromkeys(named))
            listed = ", ".join([*named[:NAMED], *(["…"] if len(named) > NAMED else [])])
            raise DataError(
                f"{split.held_out.name}: {len(named)} {what} are trained on too ({listed}); hold "
                "out rows of other users"
            )
    return split


def _profile(row: Question) -> str | None:
    texts = sorted(normal_form(post.text).lower() for post in row.profile)
    return digest(texts) if texts else None
