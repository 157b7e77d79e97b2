"""What is to be computed: each piece of work once, in canonical order, cut into batches.

The plan depends on the rows and the computation alone, never on what a cache holds, so a resumed
run computes the same batches as one that was never stopped. It holds numbers only, under a hundred
bytes a row: slates are built again when their turn comes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from palate.records import Judge, Scorer, Slate, Traits, read_by
from palate.seeding import canonical_json, digest

Ints = NDArray[np.int32]
Keys = NDArray[np.bytes_]

WORKS_PER_BATCH = 32
CHARACTERS_PER_BATCH = 400_000
PREFIX = 16
"""Bytes kept of each key: enough that no two are ever alike."""
KEPT_BYTES = 128 * 2**20
"""Slates kept from planning to computing, so that runs of ordinary size build none twice."""


class Source(Protocol):
    """The rows to score: each a slate of two candidates, built when asked for."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def id(self, row: int) -> str:
        """Return the row's id."""
        ...

    def slate(self, row: int) -> Slate:
        """Return the row's slate; the same at every call."""
        ...

    def candidates(self, row: int) -> tuple[str, ...]:
        """Return the slate's candidates."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Works in canonical order, cut into batches; `id` names the pass."""

    id: str
    fingerprint: str
    exact: bool
    judged: bool
    keys: Keys
    """The first bytes of every work's keys, work by work."""
    key_starts: Ints
    rows: Ints
    """The rows that wait for each work, work by work."""
    row_starts: Ints
    cuts: Ints
    """The first work of each batch, and the number of works."""
    work_of: Ints
    """Of each row."""
    positions: Ints
    """Where each row's two candidates stand among its work's; shape (rows, 2)."""
    kept: dict[int, Slate]
    """Readings kept from planning, by row."""

    @property
    def n_works(self) -> int:
        """Number of works."""
        return len(self.row_starts) - 1

    def rows_of(self, work: int) -> list[int]:
        """Return the rows that wait for a work."""
        found: list[int] = self.rows[self.row_starts[work] : self.row_starts[work + 1]].tolist()
        return found

    def keys_of(self, row: int) -> list[int]:
        """Return where the keys of a row's result stand in `keys`."""
        start = int(self.key_starts[self.work_of[row]])
        if self.judged:
            return [start]
        return [start + int(position) for position in self.positions[row]]


def make_plan(contestant: Scorer | Judge, traits: Traits, source: Source) -> Plan:
    """Plan one pass over these rows."""
    planner = Planner(contestant, traits, len(source))
    for row in range(len(source)):
        planner.add(row, source.slate(row))
    return planner.plan(source)


class Planner:
    """Reads every row once and makes the plan of one pass.

    Slates that a scorer reads alike but for the candidates become one wide slate, so each
    (question, shown, response) is scored once; a judge's pairs stay pairs. Of an exact scorer's
    only those that share a response: what else is in its slate changes no number.
    """

    def __init__(self, contestant: Scorer | Judge, traits: Traits, n: int) -> None:
        self.contestant, self.traits = contestant, traits
        self.judged = isinstance(contestant, Judge)
        self._keys = np.zeros((n, 1 if self.judged else 2), dtype="S32")
        self._prompts = np.zeros(0 if self.judged or traits.exact else n, dtype=f"S{PREFIX}")
        self._order = np.zeros(n, dtype=np.int8)  # of the two texts: -1, 0 (one text twice) or 1
        self._sizes = np.zeros((n, 3), dtype=np.int32)  # characters of prompt and candidates
        self._kept: dict[int, Slate] = {}
        self._room = KEPT_BYTES

    def add(self, row: int, slate: Slate) -> None:
        """Take a row in."""
        read = read_by(self.contestant, slate)
        first, second = read.candidates
        made = self.traits.fingerprint
        if self.judged:
            self._keys[row, 0] = bytes.fromhex(digest(made, read.prompt_key, read.candidates))
        else:
            for j, text in enumerate(read.candidates):
                self._keys[row, j] = bytes.fromhex(digest(made, read.prompt_key, text))
        if len(self._prompts):
            self._prompts[row] = bytes.fromhex(read.prompt_key)[:PREFIX]
        self._order[row] = (first > second) - (first < second)
        prompt = sum(len(m.content) for m in read.question) + sum(len(p.text) for p in read.shown)
        self._sizes[row] = (prompt, len(first), len(second))
        held = 2_000 + 800 * len(read.shown) + prompt + len(first) + len(second)
        if held <= self._room:
            self._room -= held
            self._kept[row] = read

    def plan(self, source: Source) -> Plan:
        """Return the plan of all rows; `source` is asked for candidates only."""
        works = _grouped(self._groups())
        keys, widths, sizes, positions = self._keys_of(works, source)
        self._keys = np.zeros((0, 0), dtype="S32")
        starts = _starts(widths)
        order = np.lexsort((keys[starts[:-1]], -sizes))
        keys = keys[_segments(starts, order)]
        rows = works.rows[_segments(works.starts, order)]
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        widths, sizes = widths[order], sizes[order]
        key_starts, row_starts = _starts(widths), _starts(np.diff(works.starts)[order])
        exact, made = self.traits.exact, self.traits.fingerprint
        whole = np.array([0, len(order)] if len(order) else [0], dtype=np.int32)
        cuts = whole if exact else _cut(sizes)
        name = digest("exact", made) if exact else _pass_id(made, keys, key_starts, cuts)
        firsts = set(rows[row_starts[:-1]].tolist()) if self._kept else set()
        return Plan(
            id=name, fingerprint=made, exact=exact, judged=self.judged,
            keys=_prefixes(keys), key_starts=key_starts, rows=rows, row_starts=row_starts,
            cuts=cuts, work_of=place[works.group], positions=positions,
            kept={row: read for row, read in self._kept.items() if row in firsts},
        )  # fmt: skip

    def _groups(self) -> Ints:
        # Rows of one number are one piece of work.
        if self.judged:
            return _numbered(self._keys[:, 0])
        if not self.traits.exact:
            return _numbered(self._prompts)
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import connected_components

        key = _numbered(self._keys.reshape(-1)).reshape(-1, 2)
        n = int(key.max()) + 1 if key.size else 0
        ones = np.ones(len(key), dtype=np.int8)
        shared = csr_matrix((ones, (key[:, 0], key[:, 1])), shape=(n, n))
        _, label = connected_components(shared, directed=False)
        found: Ints = label[key[:, 0]].astype(np.int32) if n else np.zeros(0, dtype=np.int32)
        return found

    def _keys_of(self, works: _Works, source: Source) -> tuple[Keys, Ints, Ints, Ints]:
        # Keys in the order of the sorted texts, their number and the characters of each work;
        # and where each row's candidates stand in it.
        n_rows = len(works.group)
        first = works.rows[works.starts[:-1]]
        sizes = self._sizes[first].sum(axis=1, dtype=np.int32)
        positions = np.tile(np.array([0, 1], dtype=np.int32), (n_rows, 1))
        if self.judged:
            return self._keys[first, 0], np.ones(len(first), np.int32), sizes, positions
        order = self._order
        positions[order > 0] = (1, 0)
        positions[order == 0] = 0
        widths = np.where(order[first] == 0, 1, 2).astype(np.int32)
        sizes -= np.where(order[first] == 0, self._sizes[first, 2], 0).astype(np.int32)
        several = np.flatnonzero(np.diff(works.starts) > 1)
        for work in several.tolist():
            texts = self._texts(works, work, source)
            widths[work] = len(texts)
            sizes[work] = self._sizes[first[work], 0] + sum(map(len, texts))
            position = {text: k for k, text in enumerate(texts)}
            for row in works.of(work):
                positions[row] = [position[text] for text in source.candidates(row)]
        starts = _starts(widths)
        keys = np.zeros(int(starts[-1]), dtype="S32")
        # A text's key is the same in whichever row of the work it stands.
        keys[starts[works.group][:, None] + positions] = self._keys
        return keys, widths, sizes, positions

    @staticmethod
    def _texts(works: _Works, work: int, source: Source) -> list[str]:
        return sorted({text for row in works.of(work) for text in source.candidates(row)})


@dataclass(frozen=True, slots=True, eq=False)
class _Works:
    """Rows by the work they wait for."""

    group: Ints
    rows: Ints
    starts: Ints

    def of(self, work: int) -> Sequence[int]:
        found: list[int] = self.rows[self.starts[work] : self.starts[work + 1]].tolist()
        return found


def _grouped(group: Ints) -> _Works:
    rows = np.argsort(group, kind="stable").astype(np.int32)
    return _Works(group, rows, _starts(np.bincount(group) if group.size else np.zeros(0, int)))


def _numbered(keys: Keys) -> Ints:
    return np.unique(keys, return_inverse=True)[1].astype(np.int32)


def _starts(counts: NDArray[np.signedinteger]) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _segments(starts: Ints, order: NDArray[np.intp]) -> NDArray[np.int64]:
    # Positions of all members, group by group in this order.
    counts = np.diff(starts)[order]
    ends = np.cumsum(counts)
    moved = np.repeat(starts[:-1][order] - (ends - counts), counts)
    found: NDArray[np.int64] = np.arange(len(moved)) + moved
    return found


def _prefixes(keys: Keys) -> Keys:
    raw = keys.view(np.uint8).reshape(-1, 32)[:, :PREFIX]
    found: Keys = np.ascontiguousarray(raw).view(f"S{PREFIX}").reshape(-1)
    return found


def _cut(sizes: Ints) -> Ints:
    cuts, characters = [0], 0
    for work, size in enumerate(_plain(sizes)):
        full = work - cuts[-1] == WORKS_PER_BATCH or characters + size > CHARACTERS_PER_BATCH
        if work > cuts[-1] and full:
            cuts.append(work)
            characters = 0
        characters += size
    return np.array([*cuts, len(sizes)] if len(sizes) else [0], dtype=np.int32)


def _plain(numbers: Ints, step: int = 65_536) -> Iterator[int]:
    for start in range(0, len(numbers), step):
        yield from numbers[start : start + step].tolist()


def _pass_id(made: str, keys: Keys, key_starts: Ints, cuts: Ints) -> str:
    # The digest of ("pass", fingerprint, the keys of each work of each batch), without the list.
    head = f'["pass",{canonical_json(made)},['
    running = hashlib.sha256(head.encode("utf-8", "surrogatepass"))
    raw = keys.view(np.uint8).reshape(-1, 32)
    for batch, (start, stop) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
        works = [
            [raw[k].tobytes().hex() for k in range(int(key_starts[w]), int(key_starts[w + 1]))]
            for w in range(start, stop)
        ]
        running.update(f"{',' if batch else ''}{canonical_json(works)}".encode())
    running.update(b"]]")
    return running.hexdigest()
