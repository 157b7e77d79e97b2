"""Planted worlds: users whose tastes are known, and choices that follow them at a known rate.

A user u has a unit vector of taste ``t_u``. A question offers two responses whose features differ
by ``d``; u chooses as ``sign(t_u · d)`` says with probability ``r_u``, else the other one. Both
``r_u`` and how far a taste leans to the first feature (``a_u``, below) are drawn by user, so rows
of one user hang together, and neither depends on how many rows the user has. The figures a
scorer must find are therefore those of the population the users were drawn from:

```
E r_u = FOLLOWS
a_u   = P(sign(d_0) = sign(t_u · d)) = 1 - angle(t_u, e_0) / π,  E a_u = LEANS
```

Where questions are shared, how often choices follow tastes is drawn by question too: u follows on a
question q with probability ``(r_u + 3 r_q)/4``, E r_q = `FOLLOWS`, so that a question goes well or
badly for all its users at once. Intervals by user alone then cover the accuracy of `knows` in 0.87
(couples) and 0.84 (rows) of 300 worlds.

The worlds are unequal enough that rows taken for independent give intervals that cover 0.82
(couples) and 0.88 (rows) of the time; palate's cover 0.94 to 0.96 (3,000 worlds). They do not
probe the edge of the method: with 40 to 80 users, `SAMENESS = 6`, `SKEW = 1.2` and a largest share
of up to 0.25 (about 15 effective users, whose rates spread from 0.3 to 1), palate's intervals for
`knows` cover 0.92 on couples and 0.94 on rows, missing above the truth more often than below: a
symmetric t interval under users' rates that are skewed to one side.

Scorers whose accuracy is known before they are measured:

| name | margin of the first response | truth on mirrors | elsewhere |
|---|---|---|---|
| blind | `d_0` | 1/2, always | `β = F·L + (1 − F)(1 − L)` |
| confident | `k_u d_0`, `k_u > 0` | 1/2, always | `β` |
| knows | `t_u · d` | `F` | `F` |
| hazy, vague | of `knows` with probability `h_u`, else of `blind` | `HF + (1 − H)/2` | `HF + (1 − H)β` |

with F = `FOLLOWS`, L = `LEANS`, H = `CLEAR` = E `h_u`. `hazy` and `vague` know some users well and
others hardly, each its own; they differ by lot alone, so neither gains anything over the other. On
mirrors the margins of `knows` are as large for either user (tastes have length 1), so the truth of
its shift is F too.
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from palate.seeding import rng

FOLLOWS = 0.75
"""Mean rate at which users choose as their taste says."""
LEANS = 0.65
"""Mean share of questions on which taste and the first feature prefer the same response."""
SAMENESS = 12.0
"""Concentration of both Beta distributions: the smaller, the more users differ."""
EASE = 5.0
"""Concentration of the Beta distribution of questions' rates, where questions are shared."""
BY_QUESTION = 0.75
"""Weight of the question's rate there; the rest is the user's."""
FEATURES = 6
USERS = (60, 121)
"""A world has at least the first and fewer than the second number of users."""
SKEW = 1.0
"""Standard deviation of the logarithm of users' shares."""
TOP = (0.1, 0.15)
"""Bounds on the largest share."""
LARGEST = 0.08
"""The user with the most rows has at least this share of them."""
QUESTIONS = (14, 25)
"""Bounds on the number of shared questions, as on that of users."""
PAIRS = 2
"""Pairs of responses to each shared question."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
RowKind = Literal["mirrored", "unmirrored", "mirrored shared", "unmirrored shared"]
"""Which rows a world has; in the last two, users share questions."""


@dataclass(frozen=True, eq=False)
class World:
    """Users and their rows; all arrays by row but for `tastes`, `leans` and `names`."""

    rows: RowKind
    names: NDArray[np.str_]
    tastes: Floats
    """Unit vectors, shape (users, features)."""
    leans: Floats
    """`a_u`, shape (users,)."""
    who: Ints
    """The user of each row, a position in `names`."""
    questions: Ints
    """The question of each row."""
    pairs: Ints
    """The two responses that each row is about; numbered over all questions."""
    differences: Floats
    """Features of the first response minus those of the second, shape (rows, features)."""
    sides: Floats
    """1 where the first response was chosen, −1 where the second."""
    mirror_rows: Ints | None
    """The row that mirrors each row; None where nothing is mirrored."""

    @property
    def mirrored(self) -> bool:
        """True where every row stands in a couple."""
        return self.mirror_rows is not None


def unmirrored_world(seed: int, number: int, *, rows: int = 300, shared: bool = False) -> World:
    """Draw users, unequal numbers of rows, and for each row a question of its own or a shared one.

    >>> world = unmirrored_world(0, 0)
    >>> counts = np.bincount(world.who)
    >>> bool(counts.max() >= LARGEST * counts.sum()), bool(counts.min() >= 1)
    (True, True)
    """
    kind: RowKind = "unmirrored shared" if shared else "unmirrored"
    stream = rng("selfcheck", kind, seed, number)
    names, tastes, leans, rates = _people(stream)
    counts = np.maximum(1, np.round(rows * _shares(stream, names.size))).astype(np.int64)
    who = stream.permutation(np.repeat(np.arange(names.size), counts))
    questions = pairs = np.arange(who.size)
    chances = rates[who]
    if shared:
        ease = _ease(stream)
        pairs = _chosen_between(stream, who, PAIRS * ease.size)
        questions = pairs // PAIRS
        chances = (1 - BY_QUESTION) * chances + BY_QUESTION * ease[questions]
    differences = stream.normal(size=(pairs.max() + 1, FEATURES))[pairs]
    sides = np.sign(_liking(tastes[who], differences)) * _follows(stream, chances)
    return World(kind, names, tastes, leans, who, questions, pairs, differences, sides, None)


def mirrored_world(seed: int, number: int, *, couples: int = 150, shared: bool = False) -> World:
    """Draw users and couples: one question, two users, opposite choices.

    Each couple has two responses of its own; where questions are shared, several couples are asked
    the same.

    Whether each follows their taste is drawn first, independently; then a question is drawn on
    which their tastes differ (both follow, or neither does) or agree (one of them does not). So
    choices are opposite without any couple being thrown away, each user follows their taste at
    their own rate, and the truth needs no correction for selection.

    >>> world = mirrored_world(0, 0)
    >>> bool((world.sides[world.mirror_rows] == -world.sides).all())
    True
    """
    kind: RowKind = "mirrored shared" if shared else "mirrored"
    stream = rng("selfcheck", kind, seed, number)
    names, tastes, leans, rates = _people(stream)
    who = _couples(stream, names.size, couples)
    first, second = who[0::2], who[1::2]
    questions = pairs = np.arange(couples)
    chances = rates[who].reshape(-1, 2).T
    if shared:
        ease = _ease(stream)
        questions = stream.choice(ease.size, size=couples)
        chances = (1 - BY_QUESTION) * chances + BY_QUESTION * ease[questions]
    ours, theirs = (_follows(stream, chance) for chance in chances)
    asked = _questions(stream, tastes[first], tastes[second], agree=ours != theirs)
    side = np.sign(_liking(tastes[first], asked)) * ours
    sides = np.stack([side, -side], axis=1).ravel()
    mirror_rows = np.arange(who.size) ^ 1
    questions, pairs = np.repeat(questions, 2), np.repeat(pairs, 2)
    differences = np.repeat(asked, 2, axis=0)
    return World(kind, names, tastes, leans, who, questions, pairs, differences, sides, mirror_rows)


def _people(stream: np.random.Generator) -> tuple[NDArray[np.str_], Floats, Floats, Floats]:
    users = int(stream.integers(*USERS))
    leans = stream.beta(SAMENESS * LEANS, SAMENESS * (1 - LEANS), size=users)
    rates = stream.beta(SAMENESS * FOLLOWS, SAMENESS * (1 - FOLLOWS), size=users)
    elsewhere = stream.normal(size=(users, FEATURES - 1))
    elsewhere /= np.linalg.norm(elsewhere, axis=1, keepdims=True)
    angle = np.pi * (1 - leans)
    tastes = np.column_stack([np.cos(angle), np.sin(angle)[:, None] * elsewhere])
    return np.array([f"user {k}" for k in range(users)]), tastes, leans, rates


def _ease(stream: np.random.Generator) -> Floats:
    """Return the rate at which users follow their tastes on each shared question."""
    questions = int(stream.integers(*QUESTIONS))
    return np.asarray(stream.beta(EASE * FOLLOWS, EASE * (1 - FOLLOWS), size=questions))


def _chosen_between(stream: np.random.Generator, who: Ints, pairs: int) -> Ints:
    """Return a pair of responses for each row, a user's pairs different while they last."""
    chosen = np.empty_like(who)
    for user in range(int(who.max()) + 1):
        rows = np.flatnonzero(who == user)
        chosen[rows] = np.resize(stream.permutation(pairs), rows.size)
    return chosen


def _shares(stream: np.random.Generator, users: int) -> Floats:
    """Heavy-tailed shares, the largest of them within `TOP`."""
    weights = np.sort(stream.lognormal(sigma=SKEW, size=users))
    rest = weights[:-1].sum()
    low, high = (rest * share / (1 - share) for share in TOP)
    weights[-1] = np.clip(weights[-1], low, high)
    return np.asarray(weights / weights.sum())


def _couples(stream: np.random.Generator, users: int, couples: int) -> Ints:
    """Users of couples, two by two; users and dyads repeat, some of them often."""
    while True:
        shares = _shares(stream, users)
        dyads = stream.choice(users, size=(couples, 2), p=shares)
        dyads = dyads[dyads[:, 0] != dyads[:, 1]][: couples // 2]
        often = stream.zipf(2.0, size=len(dyads)).clip(max=couples // 10)
        who = np.repeat(dyads, often, axis=0)[:couples]
        counts = np.bincount(who.ravel())
        # The graph knows nothing of tastes and rates, so drawing it anew moves no truth.
        if len(who) == couples and counts.max() >= LARGEST * 2 * couples:
            return np.asarray(who.ravel(), dtype=np.int64)


def _questions(
    stream: np.random.Generator, tastes: Floats, mirror_tastes: Floats, agree: NDArray[np.bool_]
) -> Floats:
    questions = np.empty_like(tastes)
    open_ = np.arange(len(tastes))
    while open_.size:
        drawn = stream.normal(size=(open_.size, FEATURES))
        alike = _liking(tastes[open_], drawn) * _liking(mirror_tastes[open_], drawn) > 0
        fits = alike == agree[open_]
        questions[open_[fits]] = drawn[fits]
        open_ = open_[~fits]
    return questions


def _follows(stream: np.random.Generator, rates: Floats) -> Floats:
    return np.where(stream.random(rates.size) < rates, 1.0, -1.0)


def _liking(tastes: Floats, differences: Floats) -> Floats:
    return np.asarray(np.einsum("nf,nf->n", tastes, differences))


CLEAR = 0.6
"""Mean share of a user's rows on which `hazy` and `vague` know them."""
PATCHY = 2.0
"""Concentration of the Beta distribution of those shares."""
HAZY = ("hazy", "vague")


def margins(world: World, seed: int, number: int) -> dict[str, Floats]:
    """Return each scorer's margin of the chosen over the rejected response, by row.

    >>> from planted_worlds import mirrored_world
    >>> found = margins(mirrored_world(0, 0), 0, 0)
    >>> sorted(found), bool(np.all(found["blind"][0::2] == -found["blind"][1::2]))
    (['blind', 'confident', 'hazy', 'knows', 'vague'], True)
    """
    blind = world.differences[:, 0]
    knows = np.einsum("nf,nf->n", world.tastes[world.who], world.differences)
    by_scorer = {"blind": blind, "confident": confidence(world)[world.who] * blind, "knows": knows}
    for name in HAZY:
        stream = rng("selfcheck", name, seed, number, world.mirrored)
        clear = stream.beta(PATCHY * CLEAR, PATCHY * (1 - CLEAR), size=world.names.size)
        by_scorer[name] = np.where(stream.random(blind.size) < clear[world.who], knows, blind)
    return {name: world.sides * first for name, first in by_scorer.items()}


def confidence(world: World) -> Floats:
    """Return `k_u`: larger for the users who like what `blind` likes, so that raw shift is misled.

    `k_u = e^(4 (a_u − L))`.
    """
    return np.asarray(np.exp(4 * (world.leans - LEANS)))


def scales(world: World) -> Floats:
    """Root mean square margin of `confident` for each row's user, over one set of pairs for all.

    What `palate.evaluation.state_scales` finds by asking the scorer.
    """
    common = world.differences[:200, 0]
    root = float(np.sqrt(np.mean(common**2)))
    return np.asarray(confidence(world)[world.who] * root)


def truth(scorer: str, *, mirrored: bool) -> float:
    """Return the accuracy of a scorer over the population that users and rows are drawn from.

    >>> truth("blind", mirrored=True), truth("knows", mirrored=True)
    (0.5, 0.75)
    >>> round(truth("blind", mirrored=False), 3), round(truth("hazy", mirrored=False), 3)
    (0.575, 0.68)
    """
    if scorer == "knows":
        return FOLLOWS
    blind = 0.5 if mirrored else FOLLOWS * LEANS + (1 - FOLLOWS) * (1 - LEANS)
    return CLEAR * FOLLOWS + (1 - CLEAR) * blind if scorer in HAZY else blind
