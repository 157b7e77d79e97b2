"""The verdicts of one run, row by row: what statistics read, and what `compare` pairs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palate.metrics import Clusters
from palate.metrics.clusters import compact
from palate.records import Lazy, Outcome
from palate.runs.columns import Column, Names, by_row
from palate.runs.rated import RatedColumns
from palate.runs.row import VerdictRow
from palate.seeding import canonical_json

OUTCOMES = tuple(Outcome)
UNLABELLED = '["",{}]'
CREDITS = np.array([outcome.credit for outcome in OUTCOMES])


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """Everything of the rows, 95 to 123 bytes each; ids are those of the pairs, not copies."""

    id: NDArray[np.object_]
    content: NDArray[np.bytes_]
    question: NDArray[np.uint64]
    """Hash of the text, as a number; so are those of the responses."""
    chosen: NDArray[np.uint64]
    rejected: NDArray[np.uint64]
    user: NDArray[np.int32]
    subset: NDArray[np.int32]
    mirror_of: NDArray[np.object_]
    outcome: NDArray[np.int8]
    margin: NDArray[np.float64]
    share: NDArray[np.float64]
    """Empty where no row has one."""
    orders: NDArray[np.float64]
    n_orders: NDArray[np.int8]
    chosen_first: NDArray[np.bool_]
    reason: NDArray[np.int32]
    own_words: NDArray[np.int32]
    lengths: NDArray[np.int32]
    label: NDArray[np.int32]
    """Of category and traits together."""
    rated: NDArray[np.int32]
    """Empty where no row is rated."""


class Verdicts:
    """Rows as columns."""

    def __init__(self, rows: Iterable[VerdictRow]) -> None:
        self._users, self._subsets, self._reasons = Names(), Names(), Names()
        self._labels = Names()
        self._columns, self._rated = self._gather(rows)

    def __len__(self) -> int:
        return len(self._columns.id)

    @property
    def rows(self) -> Sequence[VerdictRow]:
        """The rows, each built when it is asked for."""
        return Lazy(len(self), self._row)

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Id and content of each row: what rows of two runs are paired by."""
        contents = (content.decode() for content in self._columns.content.tolist())
        return list(zip(self._columns.id.tolist(), contents, strict=True))

    @property
    def users(self) -> NDArray[np.str_]:
        """Whose row it is."""
        return np.array(self._users.names, dtype=str)[self._columns.user]

    @property
    def user_codes(self) -> NDArray[np.int32]:
        """Whose row it is, as a number; equal numbers are equal users."""
        return self._columns.user

    @cached_property
    def question_codes(self) -> NDArray[np.int64]:
        """What each row asks, as a number; equal numbers are equal questions."""
        return compact(self._columns.question)[0]

    @cached_property
    def clusters(self) -> Clusters:
        """Users, questions and responses of each row, for the statistics."""
        ours = self._columns
        users = _by_appearance(ours.user)
        return Clusters(users, self.question_codes, (ours.chosen, ours.rejected))

    @cached_property
    def couple_clusters(self) -> Clusters:
        """Both users, question and responses of each couple, in the order of `couples`."""
        (a, b), ours = self.couples.T, self._columns
        texts = ours.chosen[a], ours.rejected[a]
        users = _by_appearance(ours.user[a], ours.user[b])
        return Clusters(users, compact(ours.question[a])[0], texts)

    @property
    def subsets(self) -> NDArray[np.str_]:
        """The subset of each row."""
        return np.array(self._subsets.names, dtype=str)[self._columns.subset]

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """1 chosen, ½ tie, 0 rejected, NaN unscored; where a row has a share, the share."""
        found: NDArray[np.float64] = CREDITS[self._columns.outcome]
        shares = self._columns.share
        return np.where(np.isnan(shares), found, shares) if shares.size else found

    @property
    def margins(self) -> NDArray[np.float64]:
        """Margin of chosen over rejected; NaN where unscored, or where a row has a share."""
        return self._columns.margin

    @property
    def orders(self) -> NDArray[np.float64]:
        """Margins of chosen over rejected in each order, NaN where there is none; two columns."""
        orders = self._columns.orders[self._columns.n_orders == 2][:, :2]
        return orders if orders.size else np.zeros((0, 2))

    @property
    def chosen_first(self) -> NDArray[np.bool_]:
        """Whether the chosen response stood first, of the rows that `orders` has."""
        found: NDArray[np.bool_] = self._columns.chosen_first[self._columns.n_orders == 2]
        return found

    @property
    def own_words(self) -> NDArray[np.int32]:
        """Words of the user's own shown part."""
        return self._columns.own_words

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Characters of chosen and rejected, shape (rows, 2)."""
        return self._columns.lengths

    @property
    def label_codes(self) -> tuple[NDArray[np.int32], list[tuple[str, dict[str, str]]]]:
        """The number of each row's label, and (category, traits) of each label by number."""
        return self._columns.label, self._label_values

    @cached_property
    def _label_values(self) -> list[tuple[str, dict[str, str]]]:
        parsed = map(json.loads, self._labels.names)
        return [(category, traits) for category, traits in parsed]

    @property
    def subset_codes(self) -> tuple[NDArray[np.int32], list[str]]:
        """The number of each row's subset, and the subsets by number."""
        return self._columns.subset, self._subsets.names

    @property
    def rated(self) -> tuple[NDArray[np.int32], RatedColumns]:
        """Where each row's ratings and scores stand, -1 for none, and those of all rated rows."""
        places = self._columns.rated
        return places if places.size else np.full(len(self), -1, dtype=np.int32), self._rated

    @cached_property
    def couples(self) -> NDArray[np.int64]:
        """Positions of the two rows of each couple, shape (couples, 2)."""
        ids, named = self._columns.id, self._columns.mirror_of
        if not any(name is not None for name in named):
            return np.zeros((0, 2), dtype=np.int64)
        position = {name: k for k, name in enumerate(ids)}
        other = np.fromiter((position.get(name or "", -1) for name in named), np.int64, len(self))
        ours = np.arange(len(self))
        one = (other > ours) & (named[other] == ids)
        return np.stack([ours[one], other[one]], axis=1)

    @property
    def mirrored(self) -> bool:
        """True where every row stands in a couple."""
        return len(self) > 0 and 2 * len(self.couples) == len(self)

    @property
    def unscored_reasons(self) -> dict[str, int]:
        """How often each reason left a row unscored, in alphabetical order."""
        codes = self._columns.reason[self._columns.outcome == OUTCOMES.index(Outcome.UNSCORED)]
        names = [*self._reasons.names, "unknown"]  # -1, no reason, is the last
        counts = np.bincount(codes % len(names), minlength=len(names)).tolist()
        found: dict[str, int] = {}
        for name, count in zip(names, counts, strict=True):
            if count:
                found[name] = found.get(name, 0) + count
        return dict(sorted(found.items()))

    def take(self, positions: ArrayLike) -> Verdicts:
        """Return the rows at these positions, or where a mask is true, in this order."""
        at = np.asarray(positions)
        at = at if at.size else at.astype(np.int64)
        made = object.__new__(Verdicts)
        made._users, made._subsets, made._reasons = self._users, self._subsets, self._reasons
        made._labels = self._labels
        made._rated = self._rated
        ours = self._columns
        columns = {f.name: getattr(ours, f.name) for f in fields(ours)}
        made._columns = replace(
            ours, **{name: c[at] if len(c) == len(self) else c for name, c in columns.items()}
        )
        return made

    def order_by_id(self) -> NDArray[np.int64]:
        """Return the positions of the rows in the order of their ids."""
        return np.array(sorted(range(len(self)), key=self._columns.id.__getitem__), dtype=np.int64)

    def by_id(self) -> Verdicts:
        """Return the rows in the order of their ids."""
        return self.take(self.order_by_id())

    def of_subsets(self) -> Iterator[tuple[str, Verdicts]]:
        """Yield each subset and its rows, in order of appearance."""
        for code in dict.fromkeys(self._columns.subset.tolist()):
            yield self._subsets.names[code], self.take(self._columns.subset == code)

    def same_rows(self, other: Verdicts) -> bool:
        """Tell whether two runs judge the same rows in the same order."""
        ours, theirs = self._columns, other._columns
        return (
            len(self) == len(other)
            and bool((ours.id == theirs.id).all())
            and bool((ours.content == theirs.content).all())
        )

    def _row(self, k: int) -> VerdictRow:
        ours = self._columns
        margin, reason = float(ours.margin[k]), int(ours.reason[k])
        share = float(ours.share[k]) if ours.share.size else math.nan
        orders = ours.orders[k, : ours.n_orders[k]].tolist()
        chosen, rejected = ours.lengths[k].tolist()
        category, traits = self._label_values[ours.label[k]]
        place = int(ours.rated[k]) if ours.rated.size else -1
        return VerdictRow(
            id=ours.id[k],
            content_hash=ours.content[k].decode(),
            question_hash=f"{ours.question[k]:016x}",
            response_hashes=(f"{ours.chosen[k]:016x}", f"{ours.rejected[k]:016x}"),
            user=self._users.names[ours.user[k]],
            subset=self._subsets.names[ours.subset[k]],
            mirror_of=ours.mirror_of[k],
            outcome=OUTCOMES[ours.outcome[k]],
            margin=None if math.isnan(margin) else margin,
            share=None if math.isnan(share) else share,
            orders=tuple(None if math.isnan(order) else order for order in orders),
            chosen_first=bool(ours.chosen_first[k]),
            reason=None if reason < 0 else self._reasons.names[reason],
            own_words=int(ours.own_words[k]),
            lengths=(chosen, rejected),
            category=category,
            traits=traits,
            ratings=None if place < 0 else self._rated.row(place),
        )

    def _gather(self, rows: Iterable[VerdictRow]) -> tuple[_Columns, RatedColumns]:
        number = {outcome: code for code, outcome in enumerate(OUTCOMES)}
        made: dict[str, tuple[Column[Any], Callable[[VerdictRow], Any]]] = {
            "id": (Column("O"), lambda row: row.id),
            "content": (Column("S"), lambda row: row.content_hash.encode()),
            "question": (Column("u8"), lambda row: int(row.question_hash, 16)),
            "chosen": (Column("u8"), lambda row: int(row.response_hashes[0], 16)),
            "rejected": (Column("u8"), lambda row: int(row.response_hashes[1], 16)),
            "user": (Column("i4"), lambda row: self._users.code(row.user)),
            "subset": (Column("i4"), lambda row: self._subsets.code(row.subset)),
            "mirror_of": (Column("O"), lambda row: row.mirror_of),
            "outcome": (Column("i1"), lambda row: number[row.outcome]),
            "margin": (Column("f8"), lambda row: row.margin),
            "share": (Column("f8"), lambda row: row.share),
            "n_orders": (Column("i1"), lambda row: len(row.orders)),
            "chosen_first": (Column("?"), lambda row: row.chosen_first),
            "reason": (
                Column("i4"),
                lambda row: -1 if row.reason is None else self._reasons.code(row.reason),
            ),
            "own_words": (Column("i4"), lambda row: row.own_words),
            "label": (Column("i4"), lambda row: self._labels.code(_label(row))),
            "rated": (Column("?"), lambda row: row.ratings is not None),
        }
        orders, lengths = Column[float]("f8"), Column[int]("i4")
        ratings, scales, scores = (Column[float]("f8") for _ in range(3))
        responses = Column[bytes]("S")
        for row in rows:
            for column, value in made.values():
                column.add(value(row))
            orders.add(*row.orders)
            lengths.add(*row.lengths)
            if row.ratings is not None:  # rows without ratings cost nothing here
                ratings.add(*row.ratings.ratings)
                scales.add(*(row.ratings.scale or (None, None)))
                scores.add(*row.ratings.scores)
                responses.add(*(name.encode() for name in row.ratings.response_hashes))
        columns: dict[str, Any] = {name: column.array() for name, (column, _) in made.items()}
        if np.isnan(columns["share"]).all():
            columns["share"] = np.zeros(0)
        columns["orders"] = by_row(orders.array(), columns["n_orders"])
        columns["lengths"] = lengths.array().reshape(-1, 2)
        rated = columns["rated"]
        places = np.where(rated, np.cumsum(rated) - 1, -1) if rated.any() else np.zeros(0)
        columns["rated"] = places.astype(np.int32)
        pairs = (column.array().reshape(-1, 2) for column in (ratings, scales, scores, responses))
        return _Columns(**columns), RatedColumns(*pairs)


def _by_appearance(*users: NDArray[np.int32]) -> tuple[NDArray[np.int64], ...]:
    """Number users as they come in these rows, so that sums over users have one order."""
    codes, first, numbers = np.unique(np.concatenate(users), return_index=True, return_inverse=True)
    place = np.empty(codes.size, dtype=np.int64)
    place[np.argsort(first)] = np.arange(codes.size)
    return tuple(np.split(place[numbers], len(users)))


def _label(row: VerdictRow) -> str:
    if not row.category and not row.traits:
        return UNLABELLED
    return canonical_json([row.category, dict(row.traits)])
