"""Sequences that begin alike, as a tree of token runs, cut into packs that a model reads at once.

A node holds the tokens that its sequences share beyond their parent's; a pack is some nodes in
depth-first order, one after another, so that a node's descendants follow it without a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

LEAST_SHARED = 16
"""A beginning shorter than this is read again rather than made a node of its own."""

Ids = Sequence[int]


@dataclass(frozen=True)
class Node:
    """A run of tokens at `offset` of each of its sequences."""

    tokens: tuple[int, ...]
    offset: int
    sequences: tuple[int, ...]
    children: tuple[Node, ...] = ()

    @cached_property
    def size(self) -> int:
        """Tokens of this node and all below it."""
        return len(self.tokens) + sum(child.size for child in self.children)


def build_tree(sequences: Sequence[Ids], least: int = LEAST_SHARED) -> tuple[Node, ...]:
    """Return the roots of a tree in which every beginning of `least` tokens or more is one node.

    >>> (root,) = build_tree([[1, 2, 3], [1, 2, 4], [1, 2]], least=1)
    >>> root.tokens, [child.tokens for child in root.children]
    ((1, 2), [(3,), (4,)])
    """
    order = sorted(range(len(sequences)), key=lambda k: tuple(sequences[k]))
    arrays = [np.asarray(sequences[k], dtype=np.int64) for k in order]
    alike = [common(ours, theirs) for ours, theirs in zip(arrays, arrays[1:], strict=False)]

    def grow(low: int, high: int, offset: int) -> Iterator[Node]:
        start = low
        while start < high:
            stop = start + 1
            while stop < high and alike[stop - 1] >= offset + least:
                stop += 1
            end = min(alike[start : stop - 1], default=len(arrays[start]))
            if end > offset:  # else the sequence ends with its parent
                yield Node(
                    tokens=tuple(int(token) for token in arrays[start][offset:end]),
                    offset=offset,
                    sequences=tuple(order[start:stop]),
                    children=tuple(grow(start, stop, end)) if stop - start > 1 else (),
                )
            start = stop

    return tuple(grow(0, len(order), 0))


def common(ours: np.ndarray, theirs: np.ndarray) -> int:
    """Return how many tokens two arrays begin with alike."""
    n = min(len(ours), len(theirs))
    differ = np.flatnonzero(ours[:n] != theirs[:n])
    return int(differ[0]) if len(differ) else n


class Segment(NamedTuple):
    """A node, or a piece of one, at `start` to `stop` of a pack; what is below it ends at `below`.

    Its first token is at `offset` of each of its sequences.
    """

    start: int
    stop: int
    below: int
    offset: int
    sequences: tuple[int, ...]


@dataclass(frozen=True)
class Pack:
    """Tokens that a model reads at once, below the `depth` segments kept of earlier packs."""

    tokens: tuple[int, ...]
    positions: tuple[int, ...]
    segments: tuple[Segment, ...]
    depth: int = 0
    keep: int | None = None
    """The segment whose keys and values later packs need."""


def packs(roots: Iterable[Node], budget: int) -> Iterator[Pack]:
    """Cut trees into packs of at most `budget` tokens, depth first.

    A tree that fits a pack is never cut. Of one that does not, the path to what is being read is
    kept, and nothing else; a run longer than the budget is read in pieces.
    """
    builder = _Builder(budget)
    for root in roots:
        yield from builder.place(root)
    yield from builder.flush()


def branches(roots: Iterable[Node], lanes: int) -> Iterator[tuple[Pack, list[Pack]]]:
    """Yield each tree's root as a pack, and its independent branches dealt to at most `lanes`."""
    for root in roots:
        builder = _Builder(root.size)
        builder.keep = builder.add(root, 0, len(root.tokens))
        trunk = next(builder.flush())
        lots: list[list[Node]] = [[] for _ in range(lanes)]
        for child in sorted(root.children, key=lambda node: -node.size):
            min(lots, key=lambda lot: sum(node.size for node in lot)).append(child)
        dealt: list[Pack] = []
        for lot in filter(None, lots):
            builder = _Builder(root.size, path=1)
            for child in lot:
                builder.add_whole(child)
            dealt += builder.flush()
        yield trunk, dealt


class _Builder:
    def __init__(self, budget: int, path: int = 0) -> None:
        self.budget, self.path = budget, path
        self._open()

    def _open(self) -> None:
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.segments: list[Segment] = []
        self.keep: int | None = None
        self.depth = self.path

    def flush(self) -> Iterator[Pack]:
        if self.tokens:
            tokens, positions = tuple(self.tokens), tuple(self.positions)
            yield Pack(tokens, positions, tuple(self.segments), self.depth, self.keep)
        self._open()

    def place(self, node: Node) -> Iterator[Pack]:
        if len(self.tokens) + node.size > self.budget:
            yield from self.flush()
        if node.size <= self.budget:
            self.add_whole(node)
            return
        outside = self.path
        for first in range(0, len(node.tokens), self.budget):
            yield from self.flush()
            self.keep = self.add(node, first, first + self.budget)
            self.path += 1
        for child in node.children:
            yield from self.place(child)
            if self.keep is not None:  # the run is in the open pack, and so is this child
                self._reach(self.keep)
        yield from self.flush()
        self.path = outside
        self._open()

    def add(self, node: Node, first: int, last: int) -> int:
        run = node.tokens[first:last]
        start, offset = len(self.tokens), node.offset + first
        stop = start + len(run)
        self.tokens += run
        self.positions += range(offset, offset + len(run))
        self.segments.append(Segment(start, stop, stop, offset, node.sequences))
        return len(self.segments) - 1

    def add_whole(self, node: Node) -> None:
        run = self.add(node, 0, len(node.tokens))
        for child in node.children:
            self.add_whole(child)
        self._reach(run)

    def _reach(self, segment: int) -> None:
        self.segments[segment] = self.segments[segment]._replace(below=len(self.tokens))
