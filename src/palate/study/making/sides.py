"""Which answer stands first: balanced within every item and every rater at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from numpy.random import Generator

JOINT = ("joint",)
"""A vertex of its own."""


def balanced_directions(
    edges: Sequence[tuple[Hashable, Hashable]], generator: Generator
) -> list[bool]:
    """Return for each edge whether it is walked from its first end to its second.

    At every vertex as many are walked towards it as away from it, or one more of either: all edges
    are walked in rounds, as Euler did.

    >>> from palate.seeding import rng
    >>> edges = [(item, rater) for item in "abc" for rater in (1, 2)]
    >>> away = balanced_directions(edges, rng("sides"))
    >>> sum(away), [away[k] != away[k + 1] for k in (0, 2, 4)]
    (3, [True, True, True])
    """
    ends, touching = list(edges), defaultdict[Hashable, list[int]](list)
    for number, edge in enumerate(edges):
        for vertex in edge:
            touching[vertex].append(number)
    # With an edge more to those of odd degree, every walk comes back to where it began.
    for vertex in [vertex for vertex, numbers in touching.items() if len(numbers) % 2]:
        for end in (vertex, JOINT):
            touching[end].append(len(ends))
        ends.append((vertex, JOINT))
    for numbers in touching.values():
        generator.shuffle(numbers)
    forward: dict[int, bool] = {}
    for start in list(touching):
        while touching[start]:
            vertex, turned = start, bool(generator.integers(2))
            while touching[vertex]:
                number = touching[vertex].pop()
                if number not in forward:
                    first, second = ends[number]
                    forward[number] = (vertex == first) != turned
                    vertex = second if vertex == first else first
    return [forward[number] for number in range(len(edges))]
