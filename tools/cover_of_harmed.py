"""How often the interval of the share of users harmed covers, where users share questions.

    python tools/cover_of_harmed.py [WORLDS]

Right with probability 1/2 before and 1/2 + δ + γ after, kept within 0 and 1; δ of the user, γ of
the question, both normal, sd 0.15 and 0.3. γ is as often above 0 as below, so a user is harmed
exactly where δ < 0. The truth is P(δ < 0); each design has three, and figures in their order. The
last design shares no question: both ways are one there.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from palate.metrics import Estimate, harmed_share
from palate.reports import Form, Table, render

Array = Any
TRUTHS = (0.05, 0.16, 0.50)
OF_USERS, OF_QUESTIONS = 0.15, 0.3


class Design(NamedTuple):
    """Who answers what."""

    users: int
    questions: int
    kind: str

    @property
    def name(self) -> str:
        """As the table calls it."""
        return f"{self.users} × {self.questions}, {self.kind}"

    def rows(self, stream: np.random.Generator) -> tuple[Array, Array]:
        """Return the user and the question of each row."""
        answered = np.ones((self.users, self.questions), dtype=bool)
        if self.kind == "sparse":
            answered = stream.random(answered.shape) < 0.3
        if self.kind == "unequal":
            diligence = stream.gamma(0.7, 0.45, self.users) + 0.1
            answered = stream.random(answered.shape) < np.outer(
                np.minimum(1, diligence), np.linspace(1.3, 0.5, self.questions)
            )
        users, questions = np.nonzero(answered)
        if self.kind == "their own":
            questions = questions + self.questions * users
        return users, questions


DESIGNS = (
    Design(50, 20, "full"),
    Design(30, 16, "sparse"),
    Design(200, 16, "unequal"),
    Design(10, 50, "full"),
    Design(60, 8, "their own"),
)


def differences(stream: np.random.Generator, users: Array, questions: Array, truth: float) -> Array:
    """Draw what each row gains: -1, 0 or 1."""
    of_user = stream.normal(-OF_USERS * ndtri(truth), OF_USERS, 1 + users.max())
    of_question = stream.normal(0, OF_QUESTIONS, 1 + questions.max())
    right = np.clip(0.5 + of_user[users] + of_question[questions], 0, 1)
    after = stream.random(users.size) < right
    return after.astype(float) - (stream.random(users.size) < 0.5)


def line(design: Design, worlds: int) -> list[str]:
    """Return the medians, cover and width of both ways, over the truths."""
    cells: dict[str, list[list[float]]] = {"alone": [], "crossed": []}
    for truth in TRUTHS:
        stream = np.random.default_rng(5)
        shares: dict[str, list[Estimate]] = {"alone": [], "crossed": []}
        for world in range(worlds):
            users, questions = design.rows(stream)
            d = differences(stream, users, questions, truth)
            shares["alone"].append(harmed_share(d, users, seed=world))
            shares["crossed"].append(harmed_share(d, users, questions, seed=world))
        for way, measured in shares.items():
            share, low, high = np.array([(m.value, m.low, m.high) for m in measured], float).T
            cover = (low <= truth) & (truth <= high)
            cells[way].append([np.median(share), cover.mean(), (high - low).mean()])
    figures = [column for way in cells.values() for column in np.array(way).T]
    return [design.name, *(", ".join(f"{x:.2f}" for x in column) for column in figures)]


def main() -> None:
    """Print the table."""
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    columns = ["users × questions"]
    columns += [
        f"{way}: {figure}"
        for way in ("by user", "by user and question")
        for figure in ("median", "cover", "width")
    ]
    truths = ", ".join(f"{truth:.2f}" for truth in TRUTHS)
    title = f"users harmed, truths {truths}, {worlds} worlds each"
    rows = [line(design, worlds) for design in DESIGNS]
    sys.stdout.write(render([Table(title, columns, rows)], Form.MARKDOWN))


if __name__ == "__main__":
    main()
