"""What a stranger gets on mirrored couples, by the rule that says who is one.

`python tools/strangers.py` prints a Markdown table. Users of two camps have tastes; a state is a
user's taste seen through noise. Pairs of users who want opposite things on a question become
partners and are judged on several such questions. Every rule scores the same rows with somebody
else's state, where chance is 0.5:

- never a partner: one stranger per user, a derangement that avoids everyone's partners (palate's
  rule before, here only);
- any other: one user per row, the couple's partner included;
- third user: one per row, as contexts and language models with states draw them;
- votes: the mean of the verdicts of all third users, as personal models on vectors are judged;
- mean less prior: the mean state of all other users less the mean of all: the own state, less the
  prior, turned round.

The standard deviations are what drawing again adds to the accuracy of one set of couples.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.records import Message, Slate, third_users
from palate.scorers.personal import may_vote, vote

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
WIDTH = 8
CAMP, APART, NOISE = 0.35, 0.6, 1.6
"""Length of the camps' common taste per number, and sd of users around it and of states."""
QUESTIONS = 2
USERS = (4, 30, 200)
COUPLES, WORLDS = 40_000, (4, 3000)
"""Couples drawn for a line of the table, in at least and at most so many worlds."""
MESSAGE = (Message(role="user", content="?"),)


class World(NamedTuple):
    """Mirrored couples and the states of their users."""

    names: list[str]
    states: Floats
    couples: Ints
    """Of each couple both users, the first of whom likes the difference (couples × 2)."""
    differences: Floats


def n_pairs(users: int, partners: str) -> int:
    """Return how many pairs of users are partners."""
    return users // 2 if partners == "few" else users * (users - 1) // 4


def draw_world(stream: np.random.Generator, users: int, partners: str) -> World:
    """Return a world with a partner for each user, or with half of all pairs of users partners."""
    camp = np.where(np.arange(users) % 2, 1.0, -1.0)[:, None]
    tastes = CAMP * camp + stream.normal(scale=APART, size=(users, WIDTH))
    wanted = n_pairs(users, partners)
    pairs: dict[tuple[int, int], None] = {}
    while len(pairs) < wanted:  # who disagrees on a question drawn at random
        a, b = sorted(stream.choice(users, size=2, replace=False).tolist())
        if _disagree(stream, tastes, a, b, tries=1) is not None:
            pairs[a, b] = None
    couples, differences = [], []
    for a, b in pairs:
        for _ in range(QUESTIONS):
            difference = _disagree(stream, tastes, a, b, tries=100)
            if difference is not None:
                couples.append((a, b))
                differences.append(difference)
    states = tastes + stream.normal(scale=NOISE, size=tastes.shape)
    names = [f"user {k:03}" for k in range(users)]
    return World(names, states, np.array(couples).reshape(-1, 2), np.array(differences))


def _disagree(
    stream: np.random.Generator, tastes: Floats, a: int, b: int, tries: int
) -> Floats | None:
    for _ in range(tries):
        difference = stream.normal(size=WIDTH)
        ours, theirs = np.sign(tastes[[a, b]] @ difference + stream.logistic(scale=0.5, size=2))
        if ours != theirs:
            return np.asarray(ours * difference)
    return None


def rows_of(world: World) -> Iterator[tuple[int, int, float, Floats]]:
    """Yield user, partner, side and the difference that a couple's first user likes."""
    for (a, b), difference in zip(world.couples.tolist(), world.differences, strict=True):
        yield a, b, 1.0, difference
        yield b, a, -1.0, difference


def accuracy(world: World, whose: Ints) -> float:
    """Return mirrored accuracy with these users' states, over the couples that have both."""
    sides = np.tile([1.0, -1.0], len(world.couples))
    margins = sides * (world.states[whose] * np.repeat(world.differences, 2, axis=0)).sum(axis=1)
    values = np.where(whose >= 0, (np.sign(margins) + 1) / 2, np.nan)
    couples = values.reshape(-1, 2).mean(axis=1)
    return float(np.nanmean(couples)) if np.isfinite(couples).any() else np.nan


def own(world: World) -> Ints:
    """Name each row's own user."""
    return np.array([user for user, *_ in rows_of(world)])


def one_per_row(world: World, seed: int, *, partner_too: bool) -> Ints:
    """Name a stranger of each row, by palate's draw."""
    whose = []
    for row, (user, partner, *_) in enumerate(rows_of(world)):
        excluded = {world.names[user]} if partner_too else {world.names[user], world.names[partner]}
        (drawn,) = third_users(world.names, excluded, 1, seed, row)
        whose.append(int(drawn[-3:]))
    return np.array(whose)


def one_per_user(world: World, seed: int) -> Ints:
    """Name a stranger of each user, the same in all rows."""
    drawn = [third_users(world.names, {name}, 1, seed, name)[0] for name in world.names]
    return np.array([int(drawn[user][-3:]) for user, *_ in rows_of(world)])


def never_a_partner(world: World, seed: int) -> Ints:
    """Name a stranger of each user by a seeded derangement without partners; -1 for nobody."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    n = len(world.names)
    fits = ~np.eye(n, dtype=bool)
    fits[world.couples[:, 0], world.couples[:, 1]] = False
    fits[world.couples[:, 1], world.couples[:, 0]] = False
    stream = np.random.default_rng(seed)
    drawn = stream.permutation(n)
    for i in stream.permutation(n):
        if not fits[i, drawn[i]]:
            swaps = np.flatnonzero(fits[i, drawn] & fits[np.arange(n), drawn[i]])
            if swaps.size:
                j = stream.choice(swaps)
                drawn[i], drawn[j] = drawn[j], drawn[i]
    if not fits[np.arange(n), drawn].all():
        drawn = maximum_bipartite_matching(csr_matrix(fits), perm_type="column")
    served = (drawn >= 0) & fits[np.arange(n), drawn]
    return np.where(served, drawn, -1)[own(world)]


def votes(world: World) -> float:
    """Return the mean share that the chosen response wins among third users."""
    slates = [
        Slate(question=MESSAGE, candidates=("chosen by the first", "by the second"),
              excluded=(world.names[user], world.names[partner]))
        for user, partner, *_ in rows_of(world)
    ]  # fmt: skip
    allowed = may_vote(slates, world.names)
    halves = (world.states @ world.differences.T) / 2
    scores = np.repeat(np.stack([halves, -halves], axis=2), 2, axis=1)
    sides = np.tile([1.0, -1.0], len(world.couples))
    return float(np.mean((1 + sides * vote(scores, allowed)) / 2))


def mean_less_prior(world: World) -> float:
    """Return the accuracy of the mean state of all other users less the mean of all users."""
    prior, n = world.states.mean(axis=0), len(world.names)
    margins = [
        side * ((n * prior - world.states[user]) / (n - 1) - prior) @ x
        for user, _, side, x in rows_of(world)
    ]
    return float(np.mean((np.sign(margins) + 1) / 2))


def cell(users: int, partners: str, seed: int) -> tuple[str, ...]:
    """Return one line of the table."""
    found: dict[str, list[float]] = {}
    least, most = WORLDS
    expected = QUESTIONS * n_pairs(users, partners)
    for number in range(max(least, min(most, COUPLES // expected))):
        world = draw_world(np.random.default_rng([seed, users, number]), users, partners)
        if not len(world.couples):
            continue
        drawn = {
            "own": accuracy(world, own(world)),
            "never": accuracy(world, never_a_partner(world, number)),
            "other": accuracy(world, one_per_row(world, 0, partner_too=True)),
            "third": accuracy(world, one_per_row(world, 0, partner_too=False)),
            "again": accuracy(world, one_per_row(world, 1, partner_too=False)),
            "votes": votes(world),
            "mean": mean_less_prior(world),
            "user": accuracy(world, one_per_user(world, 0)),
            "user again": accuracy(world, one_per_user(world, 1)),
        }
        for name, value in drawn.items():
            found.setdefault(name, []).append(value)
    told = []
    for name in ("own", "never", "other", "third", "votes", "mean"):
        values = np.array(found[name])
        told.append("–" if np.isnan(values).mean() > 0.5 else f"{np.nanmean(values):.3f}")
    for one, two in (("user", "user again"), ("third", "again")):
        apart = np.array(found[one]) - np.array(found[two])
        told.append(f"{np.sqrt(np.nanmean(apart**2) / 2):.3f}")
    return (f"{users}", partners, f"{len(world.couples):,}", *told)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What strangers get on mirrored couples.")
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    titles = ("users", "partners", "couples", "own", "never a partner", "any other", "third user",
              "votes", "mean less prior", "sd, one per user", "sd, one per row")  # fmt: skip
    sys.stdout.write(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}\n")
    for users in USERS:
        for partners in ("few", "many"):
            sys.stdout.write(f"| {' | '.join(cell(users, partners, seed))} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
