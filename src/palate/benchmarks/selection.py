"""Mirrored couples (two users, one pair, opposite choices); pairs all agree on; rows by day."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import compress
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from palate.benchmarks.dataset import Dataset, as_mirrored
from palate.benchmarks.votes import what_was_asked
from palate.errors import BenchmarkError, DataError, UsageError
from palate.records import PreferencePair, Question, normal_form, read_date
from palate.records.arguments import grouped
from palate.seeding import rng, shuffled


def couple_votes(pairs: Dataset, seed: int = 0) -> dict[str, str]:
    """Return each coupled pair's mirror row by id, as many couples of opposite votes as can be.

    A seeded maximum matching within each (question, two responses), told by their normal forms
    (turns before the question included); `mirror_of`, where it is set both ways, wins. Each pair
    stands in one couple at most. Empty where no users disagree.
    """
    both = zip(pairs.pairs, pairs.mirror_rows, strict=True)
    mirror_row = {pair.id: pairs.pairs[other].id for pair, other in both if other >= 0}
    left = [pair for pair in pairs.pairs if pair.id not in mirror_row]
    for votes in grouped(left, what_was_asked).values():
        # Drawn for the texts as they came; of several forms of one text, for the first.
        question, first, second = min((p.key, *sorted((p.chosen, p.rejected))) for p in votes)
        form = normal_form(first)
        one_way = sorted((p for p in votes if normal_form(p.chosen) == form), key=lambda p: p.id)
        other_way = sorted((p for p in votes if normal_form(p.chosen) != form), key=lambda p: p.id)
        if not one_way or not other_way:
            continue
        stream = rng("mirrors", seed, question, first, second)
        ours, theirs = [p.user_id for p in one_way], [p.user_id for p in other_way]
        for i, j in match_opposite(ours, theirs, stream):
            mirror_row[one_way[i].id] = other_way[j].id
            mirror_row[other_way[j].id] = one_way[i].id
    return mirror_row


def opposite_votes(pairs: Dataset, seed: int = 0) -> dict[str, str]:
    """Return, for each pair (id) that somebody else voted on oppositely, one such vote's id.

    It is the other row of the pair's couple; of a vote that no couple is left for, one is drawn.
    """
    opposite = couple_votes(pairs, seed)
    votes = grouped(pairs.pairs, lambda pair: (*what_was_asked(pair), normal_form(pair.chosen)))
    for pair in pairs.pairs:
        others = votes.get((*what_was_asked(pair), normal_form(pair.rejected)), ())
        ids = sorted(other.id for other in others if other.user_id != pair.user_id)
        if ids and pair.id not in opposite:
            opposite[pair.id] = shuffled(ids, "opposite", seed, pair.id)[0]
    return opposite


def mirrors(pairs: Dataset, seed: int = 0) -> Dataset:
    """Couple each vote with another user's opposite one; raises `BenchmarkError` without any."""
    pairs = pairs if pairs.split is not None else pairs.select()
    mirror_row = couple_votes(pairs, seed)
    if not mirror_row:
        raise BenchmarkError(
            f"{pairs.name}: no two users chose oppositely between the same two responses to the "
            "same question, so there is no mirrored couple"
        )
    rows = tuple(
        pair.model_copy(update={"mirror_of": mirror_row[pair.id]})
        for pair in pairs.pairs
        if pair.id in mirror_row
    )
    coupled = replace(pairs, rows=rows, everyone=pairs.everyone or pairs.rows)
    return replace(coupled, mirrored=True, mirrors="only", undecided=(), unrated=())


def agreements(pairs: Dataset, least: int = 3) -> Dataset:
    """Return the rows of pairs on which all users agree, so many or more; there is no couple.

    Pairs are told as in `couple_votes`. Who called one a tie does not agree, nor who voted both
    ways, in `chosen_again` too. Rows of all splits are votes, and past choices; a row that names
    no user adds none to the users. Raises `BenchmarkError` where there is no such pair.
    """
    pairs = pairs if pairs.split is not None else pairs.select()
    every = (*pairs.votes, *pairs.pairs, *pairs.undecided, *pairs.unrated, *pairs.history)
    cast = grouped((v for v in every if isinstance(v, PreferencePair)), what_was_asked)
    agreed = set()
    for asked, some in cast.items():
        votes = [*some, *cast.get(("", *asked[1:]), ())]
        sides = {"" if vote.tie else normal_form(vote.chosen) for vote in votes}
        sides |= {normal_form(vote.chosen_again) for vote in votes if vote.chosen_again}
        if len(sides) == 1 and len({v.user_id for v in votes if v.user_id != v.id}) >= least:
            agreed.add(asked)
    rows = tuple(pair for pair in pairs.pairs if what_was_asked(pair) in agreed)
    if not rows:
        unnamed = sum(pair.user_id == pair.id for pair in pairs.pairs)
        why = f"; {unnamed:,} rows name no user, and are nobody's votes" * bool(unnamed)
        raise BenchmarkError(f"{pairs.name}: {least} users or more agree on no pair{why}")
    selected = replace(pairs, rows=rows, everyone=pairs.everyone or pairs.rows, mirrored=False)
    return replace(selected, agreed=len(pairs.gathered), undecided=(), unrated=())


def match_opposite(
    users_a: Sequence[Hashable], users_b: Sequence[Hashable], rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Couple votes for the one response with votes for the other, never of the same user.

    A maximum matching, drawn from `rng`: no other choice of couples holds more of them. Its size is
    `min(n_a, n_b, n_a + n_b - max_u (votes of u on both sides))`. Returns pairs (position in
    `users_a`, position in `users_b`), sorted; each position once.

    >>> match_opposite(["ann", "bob"], ["bob", "cy", "ann"], np.random.default_rng(0))
    [(0, 0), (1, 2)]
    """
    n_a, n_b = len(users_a), len(users_b)
    codes = np.unique([*users_a, *users_b], return_inverse=True)[1]
    rows, columns = rng.permutation(n_a), rng.permutation(n_b)
    left, right = codes[:n_a][rows], codes[n_a:][columns]
    if np.intersect1d(left, right).size:
        from scipy.sparse.csgraph import maximum_bipartite_matching  # slow to import

        allowed = csr_array(left[:, None] != right[None, :])
        mirror_row = np.asarray(maximum_bipartite_matching(allowed, perm_type="column"))
        i = np.flatnonzero(mirror_row >= 0)
        j = mirror_row[i]
    else:
        # Everyone may be coupled with everyone: the shuffle alone is a maximum matching.
        i = j = np.arange(min(n_a, n_b))
    return sorted(zip(rows[i].tolist(), columns[j].tolist(), strict=True))


class Days(NamedTuple):
    """Two moments in UTC: the first is within, the last is not."""

    since: datetime = datetime.min.replace(tzinfo=UTC)
    until: datetime = datetime.max.replace(tzinfo=UTC)

    @classmethod
    def of(cls, since: str | None, until: str | None) -> Days:
        """Read both ends; raises `UsageError` for what is no day, and where none is between.

        >>> str(Days.of("2026-03-01", "2026-04-01T02:00+02:00"))
        '--since 2026-03-01 --until 2026-04-01'
        """
        given = (("since", since), ("until", until))
        window = cls(**{name: _moment(name, text) for name, text in given if text is not None})
        if window.since >= window.until:
            raise UsageError(f"{window}: the first day is to be before the last, which is not read")
        return window

    def __str__(self) -> str:
        return " ".join(f"--{name} {day}" for name, day in self.written.items())

    @property
    def written(self) -> dict[str, str]:
        """The ends that were given, each moment in one form, so that two forms are one window."""
        return {
            name: moment.isoformat().replace("+00:00", "Z").removesuffix("T00:00:00Z")
            for name, moment in self._asdict().items()
            if moment != self._field_defaults[name]
        }

    def holds(self, row: Question) -> bool:
        """Tell whether a row is within, by the first moment that its date names."""
        return row.instant is not None and self.since <= row.instant.start < self.until


def within(dataset: Dataset, since: str | None = None, until: str | None = None) -> Dataset:
    """Return the rows from `since` on and before `until`; couples whole, where all are mirrored.

    Past choices are those before `until`, whatever `since`. Who is whose stranger stays the same.
    Raises `UsageError` for what is no day, and where no date was read; `BenchmarkError` for rows
    without a date, and where no row is within.
    """
    window = Days.of(since, until)
    if not window.written:
        return dataset
    where = f"{dataset.name}: {window}"
    if dataset.order_as_in_file:
        raise UsageError(f"{where}: no date is read with --order-as-in-file; leave one of them")
    past = dataset.history if until is not None else ()
    dates = {row.id: row.date for row in (*dataset.rows, *dataset.undecided, *past)}
    undated = [name for name, date in dates.items() if date is None]
    if undated:
        raise BenchmarkError(
            f"{where}: {len(undated):,} of {len(dates):,} rows have no date, the first is "
            f"{undated[0]!r}; nobody knows whether they are within"
        )
    inside, mirrored = list(map(window.holds, dataset.rows)), dataset.mirrored
    both = (inside[k] or not mirrored for k in dataset.mirror_rows)
    rows = tuple(compress(dataset.rows, map(all, zip(inside, both, strict=True))))
    if not rows:
        what = "mirrored couple has both rows" if mirrored else "row is"
        days = sorted(str(row.instant.start.date()) for row in dataset.rows if row.instant)
        raise BenchmarkError(f"{where}: no {what} within (rows are of {days[0]} to {days[-1]})")
    before = window._replace(since=Days().since)
    return as_mirrored(
        replace(
            dataset,
            rows=rows,
            window=window.written,
            halves_left_out=sum(inside) - len(rows),
            everyone=(*dataset.everyone, *dataset.rows),
            undecided=tuple(filter(window.holds, dataset.undecided)),
            unrated=tuple(filter(window.holds, dataset.unrated)),
            history=tuple(filter(before.holds, past)) if past else dataset.history,
        )
    )


def _moment(name: str, text: str) -> datetime:
    try:
        return read_date(text).start
    except DataError as error:
        form = "write it as 2026-03-01, or with a time as 2026-03-01T22:10:00Z"
        raise UsageError(f"--{name} {text}: no day that can be read; {form}") from error
