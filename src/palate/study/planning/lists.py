"""Lists of raters: who is asked what, in which order, and on which side each answer stands."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.random import Generator
from scipy.optimize import linear_sum_assignment

from palate.errors import UsageError
from palate.seeding import rng, shuffled
from palate.study.records import ListEntry, StudyItem

Lists = list[list[StudyItem]]
JOINT = ("joint",)
"""A vertex of its own."""


def assign_items(
    items: Sequence[StudyItem], labels: Mapping[str, str], raters: int, per_pair: int, seed: int
) -> Lists:
    """Return each rater's items: nobody meets a pair of answers twice, each item gets `per_pair`.

    Raters get equally many items, or one more, and of each label about their share.

    Raises `UsageError` for too few raters, and for more than there is work for.
    """
    of_pair: dict[str, list[StudyItem]] = {}
    for item in items:
        of_pair.setdefault(item.pair, []).append(item)
    needed, most = per_pair * max(map(len, of_pair.values())), per_pair * len(items)
    if not needed <= raters <= most:
        raise UsageError(
            f"--raters {raters}: expected {needed:,} to {most:,}, so that each item gets "
            f"{per_pair}, nobody meets a pair of answers twice, and everybody has work"
        )
    generator = rng("study lists", seed)
    share = Counter(labels[item.id] for item in items)
    column = {label: k for k, label in enumerate(share)}
    met, loads = np.zeros((raters, len(share))), np.zeros(raters)
    lists: Lists = [[] for _ in range(raters)]
    pairs = list(of_pair.values())
    for number in generator.permutation(len(pairs)):
        places = [item for item in pairs[int(number)] for _ in range(per_pair)]
        # Who has least takes part, so that nobody is ever two items ahead.
        who = np.lexsort((generator.random(raters), loads))[: len(places)]
        loads[who] += 1
        columns = np.array([column[labels[item.id]] for item in places])
        # Who has met least of a label gets it; what is less than an item decides between equals.
        cost = met[np.ix_(who, columns)]
        cost += generator.random(cost.shape) / (2 * len(items))
        for row, place in zip(*linear_sum_assignment(cost), strict=True):
            lists[who[row]].append(places[place])
            met[who[row], columns[place]] += 1 / share[labels[places[place].id]]
    return lists


def assign_checks(checks: Sequence[StudyItem], raters: int, each: int, seed: int) -> Lists:
    """Return so many checks for each rater; each check gets equally many raters, or one more."""
    generator, loads, lists = rng("study checked", seed), np.zeros(len(checks)), []
    for _ in range(raters):
        drawn = np.lexsort((generator.random(len(checks)), loads))[:each]
        loads[drawn] += 1
        lists.append([checks[int(k)] for k in drawn])
    return lists


def order_lists(lists: Lists, checks: Lists, seed: int) -> tuple[tuple[ListEntry, ...], ...]:
    """Return what each rater is asked: items at random, a check in each of as many stretches.

    Sides are balanced to one within every item and every rater; of checks it is the side on which
    the expected answer stands.
    """
    generator = rng("study sides", seed)
    listed = [
        (k, item) for lists_of in (lists, checks) for k, of in enumerate(lists_of) for item in of
    ]
    ways = balanced_directions([((k, item.kind), item.id) for k, item in listed], generator)
    swapped = {
        (k, item.id): way != (item.expected == "second")
        for (k, item), way in zip(listed, ways, strict=True)
    }
    ordered = []
    for k, (items, checked) in enumerate(zip(lists, checks, strict=True)):
        n = len(items) + len(checked)
        bounds = [n * j // max(len(checked), 1) for j in range(len(checked) + 1)]
        at = {int(generator.integers(*ends)) for ends in zip(bounds, bounds[1:], strict=False)}
        waiting, checking = (iter(shuffled(of, "order", seed, k)) for of in (items, checked))
        order = [next(checking if j in at else waiting).id for j in range(n)]
        ordered.append(tuple(ListEntry(item=name, swapped=swapped[k, name]) for name in order))
    return tuple(ordered)


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
