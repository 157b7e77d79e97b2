"""How often the intervals of best-of-k curves cover, where rows of two users depend on each other.

    python tools/cover_of_curves.py [WORLDS]

First table: users share questions, and so samples; a scorer of skill 0.8, k = 4 of 8 samples; the
range over value, gain and oracle share, and over own tastes of sd 0.3 and 1.5 beside what all like.
The last column: a scorer that knows nothing, and how often its gain has p < 0.05.

Second table: contrasts. Two users of a couple want the opposite; how well the scorer reads a user
differs from user to user. Over couples, and as if the rows were of users and questions alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from palate.metrics import BestOfPoint, Estimate, best_of_curve
from palate.reports import Form, Table, render

Doubles = Any
Cells = list[tuple[int, int]]
SAMPLES, K = 8, 4
SKILL = 0.8
BEST_OF_4 = 1.02937537
"""Mean of the largest of four standard normals."""
OWN = (0.3, 1.5)
KNOWS = (0.4, 1.2)
COUPLES = ((24, 16), (48, 32), (160, 32))
"""Couples and the users they are drawn from."""


def everyone(users: int, questions: int) -> Callable[[np.random.Generator], Cells]:
    """Deal all questions to all users."""
    return lambda stream: [(u, q) for u in range(users) for q in range(questions)]


def some(users: int, questions: int, each: int) -> Callable[[np.random.Generator], Cells]:
    """Deal some of the questions to every user."""
    return lambda stream: [
        (u, int(q)) for u in range(users) for q in stream.choice(questions, each, replace=False)
    ]


def tasting(stream: np.random.Generator) -> Cells:
    """48 questions of two users each, 32 users with three each."""
    dealt = np.repeat(np.arange(32), 3).reshape(32, 3)
    stream.shuffle(dealt)
    flat = dealt.T.ravel().tolist()
    return [(flat[q + 48 * half], q) for q in range(48) for half in (0, 1)]


def apart(stream: np.random.Generator) -> Cells:
    """Three questions of their own to each of 30 users."""
    return [(q // 3, q) for q in range(90)]


SHAPES: dict[str, Callable[[np.random.Generator], Cells]] = {
    "24 × 12, all of all": everyone(24, 12),
    "32 × 48, two users a question (`tasting`)": tasting,
    "24 × 12, four of the twelve each": some(24, 12, 4),
    "24 × 6, all of all": everyone(24, 6),
    "24 × 3, all of all": everyone(24, 3),
    "30 × 90, three of their own each": apart,
}


class World(NamedTuple):
    """Scores and gold of samples, and what the rows share."""

    scores: Doubles
    gold: Doubles
    users: list[int]
    questions: list[int]


def shared_world(stream: np.random.Generator, cells: Cells, own: float, skill: float) -> World:
    """Draw levels of users and questions; samples belong to the question, tastes to the row."""
    users, questions = [u for u, _ in cells], [q for _, q in cells]
    level = stream.normal(0, 0.6, 1 + max(questions))[questions, None]
    level = level + stream.normal(0, 0.4, 1 + max(users))[users, None]
    drawn = stream.normal(size=(1 + max(questions), SAMPLES))
    gold = level + drawn[questions] + stream.normal(0, own, (len(cells), SAMPLES))
    noise = stream.normal(size=drawn.shape)[questions]
    return World(skill * drawn[questions] + np.sqrt(1 - skill**2) * noise, gold, users, questions)


def couples_world(stream: np.random.Generator, couples: int, users: int, knows: float) -> World:
    """Draw couples that want opposite ends of one axis; rows 2c and 2c + 1 mirror each other."""
    place = stream.normal(size=(couples, SAMPLES))
    both = np.array([stream.choice(users, 2, replace=False) for _ in range(couples)])
    taste = stream.choice([-1.0, 1.0], couples)
    contrast = 1 / (1 + np.exp(-2 * taste[:, None] * place))
    gold = np.stack([contrast, 1 - contrast], axis=1).reshape(-1, SAMPLES)
    read = (knows + stream.normal(0, 0.5, users))[both]
    seen = taste[:, None, None] * np.array([1, -1])[:, None] * read[:, :, None] * place[:, None]
    scores = (seen + stream.normal(size=(couples, 1, SAMPLES))).reshape(-1, SAMPLES)
    return World(scores, gold, both.ravel().tolist(), [k // 2 for k in range(2 * couples)])


def shared(name: str, worlds: int) -> list[str]:
    """Return one line of the first table."""
    cover: dict[bool, list[float]] = {True: [], False: []}
    found: dict[bool, list[float]] = {True: [], False: []}
    for own in OWN:
        room = BEST_OF_4 * np.sqrt(1 + own**2)
        truth = (SKILL * BEST_OF_4, SKILL * BEST_OF_4, SKILL * BEST_OF_4 / room)
        for both_ways in (True, False):
            points = list(_points(name, worlds, own, SKILL, both_ways=both_ways))
            for at, true in enumerate(truth):
                hits = [_covers((p.best, p.gain, p.oracle_share)[at], true) for p in points]
                cover[both_ways].append(float(np.mean(hits)))
            blind = [p.gain.p for p in _points(name, worlds, own, 0.0, both_ways=both_ways)]
            found[both_ways].append(float(np.mean([p is not None and p < 0.05 for p in blind])))
    ways = (True, False)
    return [name, *(_range(cover[w]) for w in ways), " / ".join(_range(found[w]) for w in ways)]


def _points(
    name: str, worlds: int, own: float, skill: float, *, both_ways: bool
) -> list[BestOfPoint]:
    stream = np.random.default_rng(17)
    points = []
    for _ in range(worlds):
        w = shared_world(stream, SHAPES[name](stream), own, skill)
        questions = w.questions if both_ways else None
        curve = best_of_curve(w.scores, w.gold, w.users, [K], questions=questions, bounds=None)
        points += curve.points
    return points


def coupled(couples: int, users: int, knows: float, worlds: int) -> list[str]:
    """Return one line of the second table."""
    stream = np.random.default_rng(6)
    truth = float(np.mean([
        _value(couples_world(stream, 200, users, knows), None).value for _ in range(300)
    ]))  # fmt: skip
    cover, width = np.zeros(2), np.zeros(2)
    for _ in range(worlds):
        world = couples_world(stream, couples, users, knows)
        mirrors = [k ^ 1 for k in range(2 * couples)]
        for at, e in enumerate((_value(world, mirrors), _value(world, None))):
            cover[at] += _covers(e, truth) / worlds
            width[at] += ((e.high or 0) - (e.low or 0)) / worlds
    sizes = f"{couples} couples of {users} users"
    return [
        sizes,
        f"{truth:.2f}",
        *(f"{c:.2f}, {w:.3f}" for c, w in zip(cover, width, strict=True)),
    ]


def _value(world: World, mirrors: list[int] | None) -> Estimate:
    curve = best_of_curve(
        world.scores, world.gold, world.users, [K], questions=world.questions, mirrors=mirrors
    )
    return curve.points[0].best


def _covers(e: Estimate, true: float) -> bool:
    return e.low is not None and e.high is not None and e.low <= true <= e.high


def _range(shares: list[float]) -> str:
    low, high = f"{min(shares):.2f}", f"{max(shares):.2f}"
    return low if low == high else f"{low}–{high}"


def main() -> None:
    """Print both tables."""
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    tables = [
        Table(f"shared questions, {worlds} worlds each",
              ["users × questions", "both ways", "by user alone",
               "a blind scorer's gain has p < 0.05: t / sign flips"],
              [shared(name, worlds) for name in SHAPES]),
        Table(f"contrasts, {worlds} worlds each: cover, mean width",
              ["", "true contrast", "over couples", "by user and question"],
              [coupled(*sizes, knows, worlds) for sizes in COUPLES for knows in KNOWS]),
    ]  # fmt: skip
    sys.stdout.write(render(tables, Form.MARKDOWN))


if __name__ == "__main__":
    main()
