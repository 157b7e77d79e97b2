"""The verdicts of one run, row by row: what statistics read, and what `compare` pairs."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palate.metrics import Ceilings, Clusters, ceilings
from palate.metrics.clusters import compact
from palate.metrics.means import Units
from palate.records import Lazy, Outcome
from palate.records.dates import instant_of
from palate.runs.row import NameCodes, RatedColumns, VerdictRow
from palate.seeding import canonical_json

OUTCOMES = tuple(Outcome)
UNLABELLED = '["",{}]'
NO_SCALE = None, None
CHUNK = 1024
"""Rows that are held as records at a time."""
CREDITS = np.array([outcome.credit for outcome in OUTCOMES])
MADE_AGAIN = re.compile(r"(?<=\A[0-9a-f]{16})-\d+\Z")
"""What the id of a row ends in that came without one and equals another in all that is read."""


class Verdicts:
    """Rows as columns, 96 to 124 bytes a row and a date's; ids are those of pairs, not copies."""

    ids: NDArray[np.object_]
    contents: NDArray[np.bytes_]
    user_codes: NDArray[np.int32]
    """Whose row it is, as a number; equal numbers are equal users."""
    margins: NDArray[np.float64]
    """Margin of chosen over rejected; NaN where unscored, or where a row has a share."""
    own_words: NDArray[np.int32]
    """Words of the user's own shown part."""
    lengths: NDArray[np.int32]
    """Characters of chosen and rejected, shape (rows, 2)."""
    _questions: NDArray[np.uint64]
    """Hash of the text, as a number; so are those of the responses."""
    _chosen: NDArray[np.uint64]
    _rejected: NDArray[np.uint64]
    _subset: NDArray[np.int32]
    _mirror_of: NDArray[np.object_]
    _outcomes: NDArray[np.int8]
    _shares: NDArray[np.float64]
    """Empty where no row has one."""
    _orders: NDArray[np.float64]
    _n_orders: NDArray[np.int8]
    _chosen_first: NDArray[np.bool_]
    _reason: NDArray[np.int32]
    _label: NDArray[np.int32]
    """Of category and traits together."""
    _dates: NDArray[np.bytes_]
    _places: NDArray[np.int32]
    """Where the ratings of each row stand; empty where no row is rated."""
    _alike: NDArray[np.int8]
    _in_two_forms: NDArray[np.bool_]
    """1 where the user chose so again, 0 where not, -1 where nobody asked."""

    def __init__(self, rows: Iterable[VerdictRow]) -> None:
        self._users, self._subsets, self._reasons = NameCodes(), NameCodes(), NameCodes()
        self._labels = NameCodes()
        rows = iter(rows)
        chunks = [self._packed(())]
        while some := list(islice(rows, CHUNK)):
            chunks.append(self._packed(some))
        # Popped, so that at any time one column alone is held twice.
        columns = {name: np.concatenate([c.pop(name) for c in chunks]) for name in [*chunks[0]]}
        if np.isnan(columns["_shares"]).all():
            columns["_shares"] = np.zeros(0)
        columns["_orders"] = _by_row(columns["_orders"], columns["_n_orders"])
        rated = columns["_places"]
        places = np.where(rated, np.cumsum(rated) - 1, -1) if rated.any() else np.zeros(0)
        columns["_places"] = places.astype(np.int32)
        self._rated = RatedColumns(*(columns.pop(name) for name in RatedColumns._fields))
        self._columns = tuple(columns)
        self.__dict__.update(columns)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def rows(self) -> Sequence[VerdictRow]:
        """The rows, each built when it is asked for."""
        return Lazy(len(self), self._row)

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Id and content of each row: what rows of two runs are paired by."""
        contents = (content.decode() for content in self.contents.tolist())
        return list(zip(self.ids.tolist(), contents, strict=True))

    @property
    def users(self) -> NDArray[np.str_]:
        """Whose row it is."""
        return np.array(self._users.names, dtype=str)[self.user_codes]

    @cached_property
    def question_codes(self) -> NDArray[np.int64]:
        """What each row asks, as a number; equal numbers are equal questions."""
        return compact(self._questions)[0]

    @cached_property
    def clusters(self) -> Clusters:
        """Users, questions and responses of each row, for the statistics."""
        users = _by_appearance(self.user_codes)
        return Clusters(users, self.question_codes, (self._chosen, self._rejected))

    @cached_property
    def ceilings(self) -> Ceilings:
        """The best accuracy on rows whose pairs several users voted on, and what the run has."""
        if self.mirrored:
            return Ceilings(len(self.couples), len(self), 0, blind=(0.5, 0.5))
        named, place = self.users != self.ids, {name: k for k, name in enumerate(self.ids)}
        first = np.array([place.get(MADE_AGAIN.sub("", name), k) for name, k in place.items()], int)
        columns = self.user_codes, self._questions, self._chosen, self._rejected
        equal = np.logical_and.reduce([column[first] == column for column in columns])
        copied = named & equal & (first != np.arange(len(self)))
        votes = self.take(np.flatnonzero(named & ~copied))
        return ceilings(votes.clusters, votes.values, votes._alike, int(copied.sum()))

    @cached_property
    def couple_clusters(self) -> Clusters:
        """Both users, question and responses of each couple, in the order of `couples`."""
        a, b = self.couples.T
        texts = self._chosen[a], self._rejected[a]
        users = _by_appearance(self.user_codes[a], self.user_codes[b])
        return Clusters(users, compact(self._questions[a])[0], texts)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """1 chosen, ½ tie, 0 rejected, NaN unscored; where a row has a share, the share."""
        credits: NDArray[np.float64] = CREDITS[self._outcomes]
        shares = self._shares
        return np.where(np.isnan(shares), credits, shares) if shares.size else credits

    @property
    def orders(self) -> NDArray[np.float64]:
        """Margins of chosen over rejected in each order, NaN where there is none; two columns."""
        orders = self._orders[self._n_orders == 2][:, :2]
        return orders if orders.size else np.zeros((0, 2))

    @cached_property
    def by_text(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Numbers of rows' pairs and users; margins, lengths of the same response of a pair."""
        texts = np.sort([self._chosen, self._rejected], axis=0)
        pairs = compact(self._questions + texts[0] * 3 + texts[1] * 5)[0]  # of random hashes
        sign = np.where(self._chosen == texts[0], 1.0, -1.0)
        codes = np.stack([pairs, self.user_codes])
        return codes, sign * self.margins, sign * -np.diff(self.lengths.astype(float))[:, 0]

    @property
    def shared(self) -> bool:
        """True where rows hold shares, and no margins."""
        return self._shares.size > 0

    @property
    def votes(self) -> NDArray[np.float64]:
        """What verdicts follow from, or NaN: two orders' margins, one margin, or share − ½."""
        if (self._n_orders == 2).any():
            two = (self._n_orders == 2)[:, None]
            return np.asarray(np.where(two, self._orders[:, :2], np.nan))
        return (self.values - 0.5 if self.shared else self.margins)[:, None]

    @property
    def chosen_first(self) -> NDArray[np.bool_]:
        """Whether the chosen response stood first, of the rows that `orders` has."""
        return np.asarray(self._chosen_first[self._n_orders == 2])

    @cached_property
    def label_codes(self) -> tuple[NDArray[np.int32], list[tuple[str, dict[str, str]]]]:
        """The number of each row's label, and (category, traits) of each label by number."""
        parsed = map(json.loads, self._labels.names)
        return self._label, [(category, traits) for category, traits in parsed]

    @cached_property
    def month_codes(self) -> tuple[NDArray[np.int64], list[str]]:
        """The number of each row's month in UTC, and the months by number; "" where undated."""
        # A moment in UTC tells its month, so few texts are read, however many rows there are.
        given, day = self._dates, self._dates.astype("S8")
        iso = np.char.isdigit(day.astype("S4")) & (np.char.rfind(day, b"-") == 7)
        utc = iso & (np.char.endswith(given, b"Z") | np.char.endswith(given, b"+00:00"))
        dates, codes = np.unique(np.where(utc, day.astype("S7"), given), return_inverse=True)
        instants = (instant_of(date.decode() or None) for date in dates.tolist())
        months = ["" if instant is None else str(instant.start)[:7] for instant in instants]
        return codes, months

    @property
    def subset_codes(self) -> tuple[NDArray[np.int32], list[str]]:
        """The number of each row's subset, and the subsets by number."""
        return self._subset, self._subsets.names

    @property
    def rated(self) -> tuple[NDArray[np.int32], RatedColumns]:
        """Where each row's ratings and scores stand, -1 for none, and those of all rated rows."""
        places = self._places
        return places if places.size else np.full(len(self), -1, dtype=np.int32), self._rated

    @cached_property
    def couples(self) -> NDArray[np.int64]:
        """Positions of the two rows of each couple, shape (couples, 2)."""
        ids, named = self.ids, self._mirror_of
        if not any(name is not None for name in named):
            return np.zeros((0, 2), dtype=np.int64)
        position = {name: k for k, name in enumerate(ids)}
        other = np.fromiter((position.get(name or "", -1) for name in named), np.int64, len(self))
        rows = np.arange(len(self))
        first = (other > rows) & (named[other] == ids)
        return np.stack([rows[first], other[first]], axis=1)

    @property
    def mirrored(self) -> bool:
        """True where every row stands in a couple."""
        return len(self) > 0 and 2 * len(self.couples) == len(self)

    def units(self, beside: Verdicts | None = None) -> Units:
        """Return the couples, where every row stands in one, here and beside; else the rows."""
        if self.mirrored and (beside is None or beside.mirrored):
            return Units(tuple(self.couples.T), self.couple_clusters)
        return Units((np.arange(len(self)),), self.clusters)

    @property
    def exact(self) -> bool:
        """True where the rows of each couple hold the same bytes: what ignores users gets ½."""
        a, b = self.couples.T
        one = self._questions[a] == self._questions[b]
        both = (self._chosen[a] == self._rejected[b]) & (self._rejected[a] == self._chosen[b])
        return bool((one & both & ~self._in_two_forms[a]).all())

    @property
    def unscored_reasons(self) -> dict[str, int]:
        """How often each reason left a row unscored, in alphabetical order."""
        codes = self._reason[self._outcomes == OUTCOMES.index(Outcome.UNSCORED)]
        names = [*self._reasons.names, "unknown"]  # -1, no reason, is the last
        return dict(sorted(Counter(names[code] for code in codes.tolist()).items()))

    def take(self, positions: ArrayLike) -> Verdicts:
        """Return the rows at these positions, or where a mask is true, in this order."""
        places = np.asarray(positions)
        places = places if places.size else places.astype(np.int64)
        selected = object.__new__(Verdicts)
        for name in ("_users", "_subsets", "_reasons", "_labels", "_rated", "_columns"):
            setattr(selected, name, getattr(self, name))
        for name in self._columns:
            column = getattr(self, name)
            setattr(selected, name, column[places] if len(column) == len(self) else column)
        return selected

    def order_by_id(self) -> NDArray[np.int64]:
        """Return the positions of the rows in the order of their ids."""
        return np.array(sorted(range(len(self)), key=self.ids.__getitem__), dtype=np.int64)

    def by_id(self) -> Verdicts:
        """Return the rows in the order of their ids."""
        return self.take(self.order_by_id())

    def of_subsets(self) -> Iterator[tuple[str, Verdicts]]:
        """Yield each subset and its rows, in order of appearance."""
        for code in dict.fromkeys(self._subset.tolist()):
            yield self._subsets.names[code], self.take(self._subset == code)

    def same_rows(self, other: Verdicts) -> bool:
        """Tell whether two runs judge the same rows in the same order."""
        return np.array_equal(self.ids, other.ids) and np.array_equal(self.contents, other.contents)

    def _row(self, k: int) -> VerdictRow:
        margin, reason = float(self.margins[k]), int(self._reason[k])
        share = float(self._shares[k]) if self._shares.size else math.nan
        orders = self._orders[k, : self._n_orders[k]].tolist()
        chosen, rejected = self.lengths[k].tolist()
        category, traits = self.label_codes[1][self._label[k]]
        place = int(self._places[k]) if self._places.size else -1
        return VerdictRow(
            id=self.ids[k],
            content_hash=self.contents[k].decode(),
            question_hash=f"{self._questions[k]:016x}",
            response_hashes=(f"{self._chosen[k]:016x}", f"{self._rejected[k]:016x}"),
            user=self._users.names[self.user_codes[k]],
            subset=self._subsets.names[self._subset[k]],
            mirror_of=self._mirror_of[k],
            outcome=OUTCOMES[self._outcomes[k]],
            margin=None if math.isnan(margin) else margin,
            share=None if math.isnan(share) else share,
            orders=tuple(None if math.isnan(order) else order for order in orders),
            chosen_first=bool(self._chosen_first[k]),
            reason=None if reason < 0 else self._reasons.names[reason],
            own_words=int(self.own_words[k]),
            lengths=(chosen, rejected),
            category=category,
            traits=traits,
            date=self._dates[k].decode() or None,
            ratings=None if place < 0 else self._rated.row(place),
            alike=None if self._alike[k] < 0 else bool(self._alike[k]),
            in_two_forms=bool(self._in_two_forms[k]) or None,
        )

    def _packed(self, rows: Sequence[VerdictRow]) -> dict[str, NDArray[Any]]:
        """Return some rows as columns; those of ratings have a row for each rated one alone."""
        rated = [row.ratings for row in rows if row.ratings is not None]
        reasons = [-1 if row.reason is None else self._reasons.code(row.reason) for row in rows]
        responses = [[name.encode() for name in each.response_hashes] for each in rated]
        return {
            "ids": np.array([row.id for row in rows], "O"),
            "contents": np.array([row.content_hash.encode() for row in rows], "S"),
            "_questions": np.array([int(row.question_hash, 16) for row in rows], "u8"),
            "_chosen": np.array([int(row.response_hashes[0], 16) for row in rows], "u8"),
            "_rejected": np.array([int(row.response_hashes[1], 16) for row in rows], "u8"),
            "user_codes": np.array([self._users.code(row.user) for row in rows], "i4"),
            "_subset": np.array([self._subsets.code(row.subset) for row in rows], "i4"),
            "_mirror_of": np.array([row.mirror_of for row in rows], "O"),
            "_outcomes": np.array([OUTCOMES.index(row.outcome) for row in rows], "i1"),
            "margins": np.array([row.margin for row in rows], "f8"),
            "_shares": np.array([row.share for row in rows], "f8"),
            "_orders": np.array([order for row in rows for order in row.orders], "f8"),
            "_n_orders": np.array([len(row.orders) for row in rows], "i1"),
            "_chosen_first": np.array([row.chosen_first for row in rows], "?"),
            "_reason": np.array(reasons, "i4"),
            "own_words": np.array([row.own_words for row in rows], "i4"),
            "lengths": np.array([row.lengths for row in rows], "i4").reshape(-1, 2),
            "_label": np.array([self._labels.code(_label(row)) for row in rows], "i4"),
            "_dates": np.array([(row.date or "").encode() for row in rows], "S"),
            "_alike": np.array([-1 if row.alike is None else row.alike for row in rows], "i1"),
            "_in_two_forms": np.array([bool(row.in_two_forms) for row in rows], "?"),
            "_places": np.array([row.ratings is not None for row in rows], "?"),
            "ratings": np.array([each.ratings for each in rated], "f8").reshape(-1, 2),
            "scales": np.array([each.scale or NO_SCALE for each in rated], "f8").reshape(-1, 2),
            "scores": np.array([each.scores for each in rated], "f8").reshape(-1, 2),
            "responses": np.array(responses, "S").reshape(-1, 2),
        }


def _by_row(numbers: NDArray[np.float64], counts: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return so many of the numbers for each row, NaN where one has fewer than the longest."""
    made = np.full((len(counts), int(counts.max(initial=0))), np.nan)
    made[np.arange(made.shape[1]) < counts[:, None]] = numbers
    return made


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
