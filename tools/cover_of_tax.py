"""How often a tax is called harmless or costly, where the truth is planted.

    python tools/cover_of_tax.py [--sets 1000]

Rows are shown users drawn at random, by whom and by question the tax is clustered. Verdicts change
both ways, as much as `moved` says, and with `spread` some users cost more than others. A scorer at
the margin of 0.02 must be *harmless* in 5 % of the sets of all designs together, in 6.5 % of those
of one; an honest one, whose tax is 0, must *cost* in 5 %; one whose tax is 0.15 in 95 %. Else the
exit status is 1. Beside it: how often the honest one is shown to be harmless, which is the power.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from palate.comparison import MARGIN
from palate.metrics import Clusters, non_inferiority, paired_difference
from palate.metrics.clusters import compact
from palate.reports import Form, Table, render
from palate.seeding import rng

RIGHT, TAX = 0.7, 0.15
"""Accuracy shown nothing, and the tax of a costly scorer."""
ONE_DESIGN, LEVEL, POWER = 0.065, 0.05, 0.95


class Design(NamedTuple):
    """How many rows are shown how many users, and what that does to verdicts."""

    rows: int
    users: int
    per_question: int = 1
    moved: float = 0.06
    """Share of the rows whose verdict changes, or the tax where that is more."""
    spread: float = 0.0
    """By how much half of the users cost more than the tax, and the others less."""
    together: bool = False
    """Whether a question is lost or won with all of its rows, as by a scorer blind to its users."""

    @property
    def name(self) -> str:
        """The design in words."""
        shared = f", {self.per_question} a question" if self.per_question > 1 else ""
        shared += " together" * self.together
        return f"{self.rows:,} × {self.users:,}{shared}, moved {self.moved:g}, ± {self.spread:g}"


DESIGNS = (
    Design(200, 10, moved=0.2),
    Design(300, 30),
    Design(300, 30, moved=0.2, spread=0.05),
    Design(400, 400, moved=0.02),
    Design(1_000, 5, moved=0.2),
    Design(1_000, 50),
    Design(1_000, 50, 5, moved=0.2, spread=0.05),
    Design(1_000, 1_000),
    Design(3_000, 100, moved=0.2, spread=0.05),
    Design(1_000, 100, 10, moved=0.02, together=True),
    Design(500, 100, 5, moved=0.02, together=True),
    Design(3_000, 100, 5, moved=0.06, together=True),
)


def shares_of_findings(design: Design, tax: float, sets: int, seed: int) -> tuple[float, float]:
    """Return in which share of so many sets this tax is shown harmless, and shown to cost."""
    stream = rng("cover of tax", seed, design.name, tax)
    harmless = costs = 0
    for _ in range(sets):
        users = stream.integers(design.users, size=design.rows)
        more = design.spread * stream.permutation(np.arange(design.users) % 2 * 2 - 1)
        taxes = tax + more[users]
        moved = np.maximum(design.moved, np.abs(taxes))
        question = np.arange(design.rows) // design.per_question
        unit = question if design.together else np.arange(design.rows)
        nothing = stream.random(design.rows)[unit] < RIGHT
        lost, won = (moved + taxes) / 2 / RIGHT, (moved - taxes) / 2 / (1 - RIGHT)
        turned = stream.random(design.rows)[unit] < np.where(nothing, lost, won)
        by = Clusters(compact(users), question)
        loss = paired_difference(nothing.astype(float), (nothing != turned).astype(float), by)
        q = design.rows / design.per_question
        harmless += non_inferiority(loss, margin=MARGIN, questions=q).finding == "shown"
        costs += (loss.low or 0.0) > 0
    return harmless / sets, costs / sets


def table(designs: Sequence[Design], sets: int, seed: int = 0) -> tuple[Table, bool]:
    """Return one line a design, and whether every bar is held."""
    rows, wrong, held = [], [], True
    for design in designs:
        (at_margin, _), (power, honest), (_, costly) = (
            shares_of_findings(design, tax, sets, seed) for tax in (MARGIN, 0.0, TAX)
        )
        wrong.append(at_margin)
        held &= at_margin <= ONE_DESIGN and honest <= LEVEL and costly >= POWER
        figures = (at_margin, honest, costly, power)
        rows.append([design.name, *(f"{figure:.3f}" for figure in figures)])
    columns = ["rows × users", "at the margin: harmless", "honest: costs", f"tax {TAX:g}: costs",
               "honest: harmless"]  # fmt: skip
    together = float(np.mean(wrong))
    notes = [f"at the margin, all designs together: {together:.3f} harmless"]
    return Table(f"{sets:,} sets a design", columns, rows, notes), held and together <= LEVEL


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    figures, held = table(DESIGNS, asked.sets, asked.seed)
    sys.stdout.write(render([figures], Form.MARKDOWN))
    sys.stdout.write("every bar is held\n" if held else "a bar is broken\n")
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
