"""Ceilings of accuracy, without the user and with, from votes of several users on the same pairs.

B = ½ + ½ E t without, P = ½ + ½ E a with. Of a pair, p is the share of people who would choose its
first response, and t = |2p - 1|; of a user on it, q is how often that user would, and a = |2q - 1|.
The programme over laws of t and a, and the box m + R z of their moments:
`docs/statistics.md#ceilings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import binom, stdtrit

from palate.metrics.arrays import FloatArray, IntArray, sums
from palate.metrics.clusters import (
    Clusters,
    Columns,
    added,
    compact,
    effective_number,
    pairs_of,
    parts_of_variance,
)
from palate.metrics.estimates import ROUNDING, TAIL

Ends = tuple[float, float]
OpenEnds = tuple[float | None, float | None]
GRID = np.linspace(0.0, 1.0, 101)
POWERS, LEAST_PAIRS, LEAST_USERS = 3, 40, 20
LEADING = 0.8
UNSEEN_PAIRS, UNSEEN_USERS = 2.0, 0.75
WIDER = (1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
FARTHEST = 100.0
PERSONAL, ACCURACY = -1, -2


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What votes tell of the best accuracy; None where they do not tell it."""

    n_pairs: int
    """Pairs with votes of two users or more."""
    n_votes: int
    """On them; a later choice on a row is one too."""
    n_repeats: int
    """Votes of users on a pair beyond their first."""
    blind: Ends | None = None
    """Of scorers that ignore the user, on those rows."""
    personal: Ends | None = None
    """Of scorers that know the user."""
    taste: Ends | None = None
    """By how much the personal ceiling is above the blind one."""
    accuracy: float | None = None
    """Of a scorer, on those rows."""
    captured: OpenEnds | None = None
    """Share of `taste` that the scorer gains over the blind ceiling. An end that is None is open:
    taste may be worth nothing."""
    note: str | None = None
    """Why there is no interval, or a wider one."""
    copies: int = 0
    """Rows left out as they may be written twice; with one P is not told."""


def ceilings(
    votes: Clusters,
    right: FloatArray | None = None,
    alike: NDArray[np.integer] | None = None,
    n_copies: int = 0,
) -> Ceilings:
    """Bound the best accuracy without the user and with the user, and what a scorer captures.

    `votes` are decided rows of one user each, with their questions; their texts are the chosen and
    the rejected response. `right` is what accuracy counts of a scorer, NaN where unscored. `alike`
    is 1 for a row whose user chose so again, 0 where not, -1 where nobody asked. With
    `n_copies`, rows left out as they may be written twice, P is not told. Raises `ValueError` for
    couples, and for rows without questions or texts.

    >>> draw = np.random.default_rng(0)
    >>> pairs, users = np.repeat(np.arange(300), 6), np.tile(np.arange(60), 30)
    >>> apart = draw.random(1800) < draw.choice([0.1, 0.5], 300)[pairs]
    >>> texts = 2 * pairs + apart, 2 * pairs + ~apart
    >>> of_all = ceilings(Clusters.of(users, questions=pairs, texts=texts))
    >>> of_all.n_pairs, [round(end, 2) for end in of_all.blind], of_all.personal
    (300, [0.65, 0.84], None)
    """
    n_rows = len(votes)
    if alike is not None and (alike >= 0).any():
        # A later choice stands behind the rows as a vote; accuracy counts the first alone.
        again = np.flatnonzero(alike >= 0)
        changed = np.append(np.zeros(n_rows), alike[again] == 0) > 0
        votes = votes.take(np.append(np.arange(n_rows), again))
        sides = votes.texts or ()
        texts = tuple(np.where(changed, b, a) for a, b in zip(sides, sides[::-1], strict=True))
        votes = replace(votes, texts=texts)
        right = None if right is None else np.append(right, np.full(again.size, np.nan))
    cells, moments = _moments(votes, right, n_rows, n_copies)
    shared = cells.voters > 1
    counts = np.unique(cells.pairs[shared]).size, int(cells.n[shared].sum())
    bare = Ceilings(*counts, int((cells.n - 1).sum()), copies=n_copies)
    # One user's repeats, or those of one question, tell nothing of other users'.
    moments = [m for m in moments if cells.clusters.effective(m.weights)[0] > 2 or m.group >= 0]
    votes_alone = [moment for moment in moments if moment.group != ACCURACY]
    if not votes_alone:
        return bare
    weights = np.asarray(cells.even * shared if bare.n_pairs else cells.n > 1, dtype=float)
    effective, unit = cells.clusters.effective(weights)
    users = effective_number(cells.clusters.users, weights)
    if users < LEAST_USERS or effective <= 2:
        few = f"{effective:.1f} effective {unit}, and more than 2"
        if users < LEAST_USERS:
            few = f"{users:.1f} effective users, and {LEAST_USERS} or more"
        return replace(bare, note=f"no interval: {few} are needed")

    def laws_of(some: Sequence[_Moment]) -> tuple[_Laws, float] | None:
        region = _region(some, cells.clusters, weights, users)
        boxes = ((_Laws(some, region * wider), wider) for wider in WIDER)
        return next((fit for fit in boxes if None not in fit[0].ends("unit")), None)

    if (fitted := laws_of(votes_alone)) is None:
        return replace(bare, note="no interval: the counts fit no chances")
    laws, wider = fitted
    strange = f"the counts fit no chances within their region, so it is {wider:g} times as wide"
    ends: dict[str, Any] = {"note": strange if wider > 1 else None}
    for name in laws.figures.keys() & {"blind", "personal", "taste"}:
        low, high = laws.ends(name)
        ends[name] = max(low or 0.0, 0.0), high
    if len(moments) > len(votes_alone):
        ends["accuracy"] = float(moments[-1].weights @ moments[-1].values)
        if "taste" in laws.figures and (of_all := laws_of(moments)):
            ends["captured"] = of_all[0].ends("gained", per="taste")
    return replace(bare, **ends)


class _Cells(NamedTuple):
    """What each user voted on each pair."""

    pairs: IntArray
    voters: IntArray
    """Users who voted on the pair."""
    n: IntArray
    """Votes of the user."""
    means: FloatArray
    """Of 1 for the one response and -1 for the other."""
    even: FloatArray
    """Weights that give a pair its rows, and its users the same."""
    clusters: Clusters


class _Moment(NamedTuple):
    """A mean over cells: E t^2k of a class of pairs, E a², or an accuracy."""

    group: int
    """The class, from 0; else PERSONAL or ACCURACY."""
    power: int
    degree: int
    """Of how many users' votes a value is a product."""
    n: int
    """Pairs, or cells with repeats."""
    mass: float
    """Share of the class; else 1."""
    lead: float
    """How the ceiling hangs on it: the coefficient in the polynomial nearest to t; else 1."""
    values: FloatArray
    weights: FloatArray
    """They sum to 1."""


def _moments(
    votes: Clusters, right: FloatArray | None, n_rows: int, n_copies: int = 0
) -> tuple[_Cells, list[_Moment]]:
    """Return cells, and the moments that they tell: by class, of repeats, of a scorer.

    A pair weighs as many as it has of the first `n_rows`; those behind are later choices on them.
    """
    if votes.questions is None or not votes.texts or votes.couples:
        raise ValueError("ceilings are of rows of one user each, with questions and texts")
    first, second = compact(*votes.texts)
    both = pairs_of(np.minimum(first, second), np.maximum(first, second))
    pairs = pairs_of(votes.questions, both)
    codes = pairs_of(pairs, votes.user)
    _, cell_rows, n = np.unique(codes, return_index=True, return_counts=True)
    means = sums(codes, np.where(first < second, 1.0, -1.0), n.size) / n
    of_rows, pairs = pairs[:n_rows], pairs[cell_rows]
    voters = np.bincount(pairs)[pairs]
    even = np.bincount(of_rows, minlength=n.size)[pairs] / voters
    cells = _Cells(pairs, voters, n, means, even, votes.take(cell_rows))
    moments: list[_Moment] = []

    def add(
        kind: tuple[int, int, int], values: FloatArray, weights: Any, law: Any = (1.0, 1.0)
    ) -> None:
        there = weights > 0
        if there.any():
            n_units = int(there.sum()) if kind[0] == PERSONAL else np.unique(pairs[there]).size
            of = np.where(there, values, 0.0), weights / weights.sum()
            moments.append(_Moment(*kind, n_units, law[0], law[1], *of))

    # How many moments are used: of a class with few pairs one fewer.
    classes = np.minimum(voters // 2, POWERS)
    for most in range(POWERS, 1, -1):
        if np.unique(pairs[classes == most]).size < LEAST_PAIRS:
            classes[classes == most] = most - 1
    agreements, total = _agreements(cells), float(even[voters > 1].sum())
    for group, most in enumerate(np.unique(classes[classes > 0]).tolist()):
        here = even * (classes == most)
        mass = float(here.sum()) / total
        nearest = np.linalg.lstsq(GRID[:, None] ** (2 * np.arange(most + 1)), GRID, rcond=None)[0]
        for k in range(1, most + 1):
            add((group, k, 2 * k), agreements[k - 1], here, (mass, mass * nearest[k]))
    again = np.maximum(n, 2)
    repeated = n * (n > 1) * (not n_copies)
    add((PERSONAL, 1, 1), ((means * n) ** 2 - n) / (again * (again - 1)), repeated)
    if right is not None:
        known = ~np.isnan(right)
        scored = np.bincount(codes[known], minlength=n.size)
        credit = sums(codes[known], right[known], n.size) / np.maximum(scored, 1)
        add((ACCURACY, 1, 1), credit, scored * (voters > 1))
    return cells, moments


def _agreements(cells: _Cells) -> list[FloatArray]:
    # x_u e_{2k-1}(x without u)/C(n - 1, 2k - 1) of each cell: over a pair's users their mean is
    # e_2k(x)/C(n, 2k). By Newton's identities, and e_k = e_k(without u) + x_u e_{k-1}(without u).
    pairs, x = cells.pairs, cells.means
    every, without = [np.ones(x.size)], [np.ones(x.size)]
    powers = [sums(pairs, x**k, x.size)[pairs] for k in range(2 * POWERS)]
    for k in range(1, 2 * POWERS):
        terms = [(-1) ** (i - 1) * every[k - i] * powers[i] for i in range(1, k + 1)]
        every.append(np.sum(terms, axis=0) / k)
        without.append(every[k] - x * without[k - 1])
    ways = [np.maximum(binom(cells.voters - 1, k), 1) for k in range(2 * POWERS)]
    return [x * without[k] / ways[k] for k in range(1, 2 * POWERS, 2)]


def _region(
    moments: Sequence[_Moment], clusters: Clusters, weights: FloatArray, users: float
) -> FloatArray:
    """Return R, each column times the radius of its axis."""
    columns_of = [np.array(each).T for each in zip(*moments, strict=True)]
    groups, powers, degrees, n, masses, leads, values, shares = columns_of
    means = (shares * values).sum(axis=0)
    moved = shares * (values - means)

    def squares(columns: Columns, scale: FloatArray | float) -> FloatArray:
        top, gone = (np.stack([added(columns, c) for c in of.T]) for of in (moved, shares))
        # Without a cluster that holds a whole class, nothing of it is left to move.
        without = scale * top / np.where(1 - gone > ROUNDING, 1 - gone, 1.0)
        return without @ without.T

    of_users, of_items, of_cells = parts_of_variance(squares, weights, clusters)
    for power in (0.0, 0.5, 1.0):
        for size in (UNSEEN_PAIRS / n, UNSEEN_USERS / users * degrees):
            unseen = size * (power**powers - means)
            of_items = of_items + (groups[:, None] == groups) * np.outer(unseen, unseen)
    values, vectors = np.linalg.eigh(of_items)
    root = vectors * np.sqrt(np.maximum(values, ROUNDING * values[-1]))
    back = np.linalg.inv(root)
    beyond = back @ (np.outer(degrees, degrees) * (of_users - of_cells)) @ back.T
    values, vectors = np.linalg.eigh((beyond + beyond.T) / 2)
    root = root @ (vectors * np.sqrt(1 + np.maximum(values, 0.0)))
    kinds = np.minimum(groups, 0)
    each = [(kinds == kind, (kinds == kind) & (powers == 1)) for kind in np.unique(kinds)[::-1]]
    leading = np.stack([leads * of for of, _ in each])
    df = [clusters.effective(shares[:, once] @ masses[once])[0] - 1 for _, once in each]
    axes, _ = np.linalg.qr(np.hstack([root.T @ leading.T, np.eye(n.size)]))
    rest = n.size - len(df)
    tail_of = (LEADING if rest else 1.0) / len(df), (1 - LEADING) / max(rest, 1)
    tails = np.repeat(tail_of, [len(df), rest])
    return np.asarray(root @ axes * stdtrit([*df, *[df[0]] * rest], 1 - TAIL * tails))


class _Laws:
    """The linear programme: laws of t by class, and of a; places in the region; and a unit.

    The unit is 1, or what makes some figure 1, so that a share of that figure is linear too.
    """

    def __init__(self, moments: Sequence[_Moment], region: FloatArray) -> None:
        masses = {m.group: m.mass for m in moments if m.group != ACCURACY}
        self._shape, self._places = (len(masses), GRID.size), len(moments)
        law_of = dict(zip(masses, np.eye(len(masses))[:, :, None], strict=True))
        self.figures = {"unit": self._row(unit=1.0)}
        equal = [self._row(law_of[of] + 0 * GRID, unit=-mass) for of, mass in masses.items()]
        if blind := [law for group, law in law_of.items() if group >= 0]:
            self.figures["blind"] = self._row(np.sum(blind, axis=0) * GRID / 2, unit=0.5)
        if PERSONAL in law_of:
            self.figures["personal"] = self._row(law_of[PERSONAL] * GRID / 2, unit=0.5)
        for moment, place in zip(moments, region, strict=True):
            mean = float(moment.weights @ moment.values)
            if moment.group != ACCURACY:
                law = law_of[moment.group] * GRID ** (2 * moment.power) / moment.mass
                equal.append(self._row(law, -place, -mean))
            elif blind:
                self.figures["gained"] = self._row(0.0, place, mean) - self.figures["blind"]
        most = [self._row(0.0, one, -1.0) for one in np.kron(np.eye(self._places), [[1], [-1]])]
        if blind and PERSONAL in law_of:
            self.figures["taste"] = self.figures["personal"] - self.figures["blind"]
            less = 1 - 2 * law_of[PERSONAL]  # p is the mean of q over users (Strassen 1965)
            most += [self._row(less * np.maximum(GRID - c, 0.0)) for c in GRID[:-1:5]]
        self._equal, self._most = np.array(equal), np.array(most)

    def _row(self, law: Any = 0.0, place: Any = 0.0, unit: float = 0.0) -> FloatArray:
        laws, places = np.broadcast_to(law, self._shape), np.broadcast_to(place, self._places)
        return np.concatenate([laws.ravel(), places, [unit]])

    def ends(self, name: str, per: str = "unit") -> OpenEnds:
        """Return the least and largest share of `per`; None where there is no end."""
        from scipy.optimize import linprog  # slow to import

        figure = self.figures[name]
        free: list[tuple[float | None, None]] = [(0.0, None)] * figure.size
        free[-1 - self._places : -1] = [(None, None)] * self._places
        equal = np.vstack([self._equal, self.figures[per]])
        level, under = np.eye(len(equal))[-1], np.zeros(len(self._most))
        ends: list[float | None] = []
        for sign in (1, -1):
            least = linprog(sign * figure, self._most, under, equal, level, free)
            end = sign * float(least.fun) if least.status == 0 and least.fun is not None else None
            ends.append(end if end is not None and abs(end) < FARTHEST else None)
        return ends[0], ends[1]
