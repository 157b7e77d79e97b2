"""The requests of a pass: each once, in canonical order, cut into batches.

A request is (prompt, response) for a scorer, (prompt, first, second) for a judge, which sees both
orders. The plan depends on the rows and the computation alone, never on what a cache holds, so a
resumed run computes the same batches as one that was never stopped. It holds numbers only, about a
hundred bytes a pair: slates are built again when their turn comes.
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from palate.records import Judge, Prepared, RowSource, Scorer, ScorerInfo, Slate, prepare
from palate.seeding import canonical_json, digest

Ints = NDArray[np.int32]
Keys = NDArray[np.bytes_]

GROUPS_PER_BATCH = 32
CHARACTERS_PER_BATCH = 400_000
PREFIX = 16
"""Bytes kept of each key: enough that no two are ever alike."""
KEPT_BYTES = 128 * 2**20
"""Slates and their tokens kept from planning to computing, so that runs of ordinary size build and
tokenise nothing twice."""


@dataclass(frozen=True, slots=True, eq=False)
class WorkPlan:
    """Requests in canonical order; `id` names the pass.

    What is computed as one slate is a group: all requests of one prompt, a judge's one by one, and
    of an exact scorer those that a row is the first to make.
    """

    id: str
    fingerprint: str
    exact: bool
    judged: bool
    keys: Keys
    """The first bytes of every request's key, group by group."""
    group_starts: Ints
    """The first request of each group, and the number of requests."""
    cuts: Ints
    """The first group of each batch, and the number of groups; exact ones the runner cuts anew."""
    first_row: Ints
    """Of each request, the first row that makes it."""
    first_place: Ints
    """And which of that row's requests it is."""
    requests: Ints
    """Of each row, one row after another, the requests it makes: of a scorer one per candidate, of
    a judge one per two candidates, in the order of `itertools.combinations`."""
    row_starts: Ints
    """Where each row's requests begin, and their number."""
    dropped: Ints
    """Of each row, the parts that did not fit; empty for a scorer that cuts nothing."""
    prepared: dict[int, Prepared]
    """Readings kept from planning, by row."""

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.group_starts) - 1

    def of_row(self, row: int) -> Ints:
        """Return the requests of a row."""
        return self.requests[self.row_starts[row] : self.row_starts[row + 1]]

    def of_group(self, group: int) -> range:
        """Return the requests of a group."""
        return range(int(self.group_starts[group]), int(self.group_starts[group + 1]))

    def rows_by_group(self) -> Ints:
        """Return how many rows have their first request in each group."""
        some = self.row_starts[:-1][np.diff(self.row_starts) > 0]
        group = np.searchsorted(self.group_starts, self.requests[some], side="right") - 1
        return np.bincount(group, minlength=self.n_groups).astype(np.int32)


def shown_characters(slate: Slate) -> int:
    """Return how many characters the question and what is shown of the user have."""
    return sum(len(m.content) for m in slate.question) + sum(len(p.text) for p in slate.shown)


class WorkPlanner:
    """Reads every row once, in order, and makes the plan of one pass."""

    def __init__(self, scorer: Scorer | Judge, info: ScorerInfo) -> None:
        self.scorer, self.info = scorer, info
        self.judged = isinstance(scorer, Judge)
        self._keys, self._prompts = bytearray(), bytearray()
        self._counts, self._sizes = array("i"), array("i")  # requests and prompt's size, by row
        self._rank, self._length = array("i"), array("i")  # of each request, in its row
        self._dropped = array("i")
        self._prepared: dict[int, Prepared] = {}
        self._room = KEPT_BYTES

    def add(self, slate: Slate) -> None:
        """Take the next row in."""
        row = len(self._counts)
        ready = prepare(self.scorer, slate)
        read = ready.slate
        fingerprint, prompt, texts = self.info.fingerprint, read.prompt_key, read.candidates
        if self.judged:
            both = list(combinations(texts, 2))
            keys = [digest(fingerprint, prompt, two) for two in both]
            self._rank.extend([0] * len(both))
            self._length.extend(len(a) + len(b) for a, b in both)
        else:
            keys = [digest(fingerprint, prompt, text) for text in texts]
            rank = {text: k for k, text in enumerate(sorted(set(texts)))}
            self._rank.extend(rank[text] for text in texts)
            self._length.extend(map(len, texts))
        self._keys += bytes.fromhex("".join(keys))
        self._counts.append(len(keys))
        if not self.judged and not self.info.exact:
            self._prompts += bytes.fromhex(prompt)[:PREFIX]
        self._sizes.append(shown_characters(read))
        if self.info.cuts:
            self._dropped.append(ready.dropped)
        if (held := ready.nbytes) <= self._room:
            self._room -= held
            self._prepared[row] = ready

    def plan(self, source: RowSource) -> WorkPlan:
        """Return the plan of all rows; `source` is asked for candidates only."""
        row_starts = _starts(np.array(self._counts, np.int32))
        made_keys = np.frombuffer(self._keys, "S32")
        first, requests = _unique(made_keys)
        row = (np.searchsorted(row_starts, first, side="right") - 1).astype(np.int32)
        place = (first - row_starts[row]).astype(np.int32)
        group = self._groups(row)
        rank = self._ranks(group, row, place, first, source)
        length = np.array(self._length, np.int32)[first]
        # Requests group by group, texts sorted; then groups, the largest first.
        order = np.lexsort((rank, group))
        counts = np.bincount(group).astype(np.int32) if len(group) else np.zeros(0, np.int32)
        starts = _starts(counts)
        size = np.add.reduceat(length[order], starts[:-1]) if len(counts) else counts
        size = size + np.array(self._sizes, np.int32)[row[order[starts[:-1]]]]
        groups = np.lexsort((made_keys[first[order[starts[:-1]]]], -size))
        order = order[_segments(starts, groups)]
        position = np.empty(len(order), np.int32)
        position[order] = np.arange(len(order), dtype=np.int32)
        keys, group_starts = made_keys[first[order]], _starts(counts[groups])
        del made_keys
        self._keys = bytearray()
        exact, fingerprint = self.info.exact, self.info.fingerprint
        if exact:
            cuts = np.array([*range(0, len(groups), GROUPS_PER_BATCH), len(groups)], np.int32)
            name = digest("exact", fingerprint)
        else:
            cuts = _cut(size[groups])
            name = _pass_id(fingerprint, keys, group_starts, cuts)
        first_row = row[order]
        built_from = set(first_row.tolist()) if self._prepared else set()
        return WorkPlan(
            name,
            fingerprint,
            exact,
            self.judged,
            keys=_prefixes(keys),
            group_starts=group_starts,
            cuts=cuts,
            first_row=first_row,
            first_place=place[order],
            requests=position[requests],
            row_starts=row_starts,
            dropped=np.array(self._dropped, np.int32),
            prepared={row: read for row, read in self._prepared.items() if row in built_from},
        )

    def _groups(self, row: Ints) -> Ints:
        # Of each request the number of its group.
        if self.judged:
            return np.arange(len(row), dtype=np.int32)
        if self.info.exact:
            return _numbered(row)
        prompts = np.frombuffer(self._prompts, f"S{PREFIX}")
        return _numbered(_numbered(prompts)[row])

    def _ranks(self, group: Ints, row: Ints, place: Ints, first: Ints, source: RowSource) -> Ints:
        # Where each request's text stands among the sorted texts of its group.
        rank = np.array(self._rank, np.int32)[first]
        if self.judged or self.info.exact or not len(group):
            return rank
        order = np.argsort(group, kind="stable")
        starts = _starts(np.bincount(group))
        low = np.minimum.reduceat(row[order], starts[:-1])
        high = np.maximum.reduceat(row[order], starts[:-1])
        for number in np.flatnonzero(low < high).tolist():
            some = order[starts[number] : starts[number + 1]]
            texts = [source.candidates(int(row[k]))[int(place[k])] for k in some]
            rank[some[sorted(range(len(texts)), key=texts.__getitem__)]] = np.arange(len(texts))
        return rank


def _unique(keys: Keys) -> tuple[Ints, Ints]:
    # Where each different key comes first, in their order, and of all keys which of these they are;
    # as `numpy.unique`, without its copies.
    order = np.argsort(keys, kind="stable").astype(np.int32)
    new = np.ones(len(keys), dtype=bool)
    in_order = keys[order]
    new[1:] = in_order[1:] != in_order[:-1]
    number = np.empty(len(keys), np.int32)
    number[order] = np.cumsum(new, dtype=np.int32) - 1
    return order[new], number


def _numbered(values: NDArray[np.generic]) -> Ints:
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int32)


def _starts(counts: NDArray[np.integer]) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _segments(starts: Ints, order: NDArray[np.intp]) -> NDArray[np.int64]:
    # Positions of all members, group by group in this order.
    counts = np.diff(starts)[order]
    ends = np.cumsum(counts)
    moved = np.repeat(starts[:-1][order] - (ends - counts), counts)
    return np.asarray(np.arange(len(moved)) + moved, dtype=np.int64)


def _prefixes(keys: Keys) -> Keys:
    raw = keys.view(np.uint8).reshape(-1, 32)[:, :PREFIX]
    found: Keys = np.ascontiguousarray(raw).view(f"S{PREFIX}").reshape(-1)
    return found


def _cut(sizes: Ints) -> Ints:
    cuts, characters = [0], 0
    for group, size in enumerate(map(int, sizes)):
        full = group - cuts[-1] == GROUPS_PER_BATCH or characters + size > CHARACTERS_PER_BATCH
        if group > cuts[-1] and full:
            cuts.append(group)
            characters = 0
        characters += size
    return np.array([*cuts, len(sizes)] if len(sizes) else [0], dtype=np.int32)


def _pass_id(made: str, keys: Keys, group_starts: Ints, cuts: Ints) -> str:
    # The digest of ("pass", fingerprint, the keys of each group of each batch), without the list.
    head = f'["pass",{canonical_json(made)},['
    running = hashlib.sha256(head.encode("utf-8", "surrogatepass"))
    raw = keys.view(np.uint8).reshape(-1, 32)
    for batch, (start, stop) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
        groups = [
            [raw[k].tobytes().hex() for k in range(int(group_starts[g]), int(group_starts[g + 1]))]
            for g in range(start, stop)
        ]
        running.update(f"{',' if batch else ''}{canonical_json(groups)}".encode())
    running.update(b"]]")
    return running.hexdigest()
