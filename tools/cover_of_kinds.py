"""How often the parts of an identity gain hold 0 where a planted scorer knows nothing of them.

    python tools/cover_of_kinds.py [WORLDS]

A user's taste on a question is √h of their kind and √(1 − h) of the person, both normal, and a
choice its sign with noise. The scorer reads of whoever is shown the kind's part, the person's part
or both, with noise, and adds a bias of the question. h makes the kind's half of the identity gain:
of a correlation r with the chosen sign, accuracy is ½ + asin(r)/π. On couples, who chose
oppositely, the truth is the mean over the worlds.
"""

from __future__ import annotations

import sys
from math import asin, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from palate.metrics import Clusters, Estimate, paired_difference, share_of
from palate.reports import Form, Table, render

Array = Any
NOISE, BIAS = 0.5, 0.5
KNOWS = ("the kind", "the person", "both")
Parts = tuple[Estimate, Estimate, Estimate]


class Design(NamedTuple):
    """Who answers what."""

    users: int
    questions: int
    each: int
    kinds: int
    layout: str = "rows"

    @property
    def name(self) -> str:
        """As the table calls it."""
        what = f"{self.questions} shared questions" if self.questions else "questions of their own"
        kinds = f"{self.users} users of {self.kinds} kinds"
        return f"{kinds}, {self.each} each, {what}{', couples' * (self.layout == 'couples')}"

    def rows(self, stream: np.random.Generator) -> tuple[Array, Array]:
        """Return the user and the question of each row; of unequal users some answer little."""
        users = np.repeat(np.arange(self.users), self.each)
        if self.layout == "unequal":
            users = users[stream.random(users.size) < np.linspace(0.1, 1.0, self.users)[users]]
        if not self.questions:
            return users, np.arange(users.size)
        drawn = stream.random((self.users, self.questions)).argsort(axis=1)
        place = np.arange(users.size) - np.searchsorted(users, users)
        return users, drawn[users, place]


DESIGNS = (
    Design(60, 0, 12, 4),
    Design(60, 40, 12, 4),
    Design(24, 40, 30, 3),
    Design(200, 30, 16, 8, "unequal"),
    Design(60, 40, 20, 4, "couples"),
)


def kinds_share(design: Design) -> float:
    """Return the h of whose gain one half is the kind's."""
    size = sqrt((1 + NOISE**2) * (1 + NOISE**2 + BIAS**2))
    others = (design.users / design.kinds - 1) / (design.users - 1)

    def too_much(h: float) -> float:
        own, kind = asin(1 / size) / pi, asin(h / size) / pi
        return kind * (1 - others) - (own - kind)

    return float(brentq(too_much, 0.0, 1.0))


def third(stream: np.random.Generator, allowed: Array) -> Array:
    """Draw one user of each row's allowed ones (rows × users)."""
    return np.where(allowed, stream.random(allowed.shape), -1.0).argmax(axis=1)


def couples_of(stream: np.random.Generator, questions: Array, chosen: Array) -> tuple[Array, Array]:
    """Match rows of one question with opposite choices, each at most once."""
    first, second = [], []
    for question in np.unique(questions):
        here = stream.permutation(np.flatnonzero(questions == question))
        ups, downs = here[chosen[here] > 0], here[chosen[here] < 0]
        n = min(ups.size, downs.size)
        first.append(ups[:n])
        second.append(downs[:n])
    return np.concatenate(first), np.concatenate(second)


def world(stream: np.random.Generator, design: Design) -> dict[str, Parts]:
    """Return, by what the scorer knows, the identity gain, the individual part and the kind's."""
    users, questions = design.rows(stream)
    kind, n = np.arange(design.users) % design.kinds, 1 + questions.max()
    h = kinds_share(design)
    of_kind = stream.normal(size=(design.kinds, n))[kind]
    of_person = stream.normal(size=(design.users, n))
    taste = sqrt(h) * of_kind + sqrt(1 - h) * of_person
    chosen = np.sign(taste[users, questions] + NOISE * stream.normal(size=users.size))
    mirrors = users
    if design.layout == "couples":
        a, b = couples_of(stream, questions, chosen)
        at, other = np.concatenate([a, b]), np.concatenate([b, a])
        mirrors, users, questions, chosen = users[other], users[at], questions[at], chosen[at]
    everybody = np.arange(design.users)[None]
    allowed = (everybody != users[:, None]) & (everybody != mirrors[:, None])
    shown = (users, third(stream, allowed & (kind == kind[users][:, None])), third(stream, allowed))
    bias, noise = BIAS * stream.normal(size=n), NOISE * stream.normal(size=taste.shape)
    clusters = Clusters.of(users, questions=questions)
    half = users.size // 2
    if design.layout == "couples":
        clusters = Clusters.of(users[:half], users[half:], questions=questions[:half])
    told = {}
    for knows, part in zip(KNOWS, (of_kind, of_person, taste), strict=True):
        read = part + noise + bias
        own, alike, stranger = (
            (np.sign(read[whose, questions]) == chosen).astype(float) for whose in shown
        )
        if design.layout == "couples":
            own, alike, stranger = ((v[:half] + v[half:]) / 2 for v in (own, alike, stranger))
        told[knows] = tuple(
            paired_difference(x, y, clusters)
            for x, y in ((own, stranger), (own, alike), (alike, stranger))
        )
    return told  # type: ignore[return-value]


def holds(estimate: Estimate, truth: float) -> bool:
    """Tell whether the interval does."""
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and low <= truth <= high


def line(design: Design, worlds: int) -> list[str]:
    """Return cover and mean width of both parts and of the share."""
    stream = np.random.default_rng(52)
    drawn = [world(stream, design) for _ in range(worlds)]
    cells = [
        covered([each[knows][at] for each in drawn], 0.0)
        for knows, at in (("the kind", 1), ("the person", 2))
    ]
    whole, _, kind = (np.mean([each["both"][k].value for each in drawn]) for k in range(3))
    truth = float(kind / whole) if design.layout == "couples" else 0.5
    shares = [share_of(kind, whole, rest) for whole, rest, kind in (it["both"] for it in drawn)]
    known = [share for share in shares if share.low is not None]
    mean = np.mean([share.value for share in known])
    return [*cells, f"{mean:.3f} ({truth:.3f})", covered(known, truth), f"{len(known)}"]


def covered(estimates: list[Estimate], truth: float) -> str:
    """Return the share of the intervals that hold it, and their mean width."""
    ends = np.array([(e.low, e.high) for e in estimates], dtype=float)  # None becomes NaN
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    return f"{inside.mean():.3f} ({np.nanmean(ends[:, 1] - ends[:, 0]):.2f})"


COLUMNS = (
    "design",
    "knows the kind alone: individual holds 0 (width)",
    "knows the person alone: kind holds 0 (width)",
    "half and half: mean share (truth)",
    "its cover (width)",
    "worlds with an interval",
)


def main() -> None:
    """Print the table."""
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rows = [[design.name, *line(design, worlds)] for design in DESIGNS]
    title = f"the person or the kind, {worlds} worlds each"
    sys.stdout.write(render([Table(title, COLUMNS, rows)], Form.MARKDOWN))


if __name__ == "__main__":
    main()
