"""How often equivalence is shown of accuracies that lie exactly at its margin.

    python tools/cover_of_equivalence.py [--sets 1000]

Users and questions are crossed; the truth is 0.55 or 0.45 by turns, so that *shown* is wrong. At
most 6.5 % of the sets of each design may be shown, else the exit status is 1. Beside it: how often
accuracies of exactly 0.5 are shown, and how often `n_needed` of those was at most the rows there
were; both tell the power, and are held against nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri
from shared_designs import Design, planted_design
from shared_scorers import Shares, World, effects

from palate.metrics import Equivalence, clustered_mean, equivalence
from palate.metrics.estimates import MARGIN
from palate.reports import Form, Table, render
from palate.seeding import rng

BAR = 0.065
DESIGNS = ((50, 20, "full"), (50, 100, "sparse"), (50, 100, "unequal"), (50, 100, "full"))
SHARES = Shares(0.01, 0.01, 0.02)
"""Of the variance of users, questions and texts: more of it, and nothing could ever be shown."""
AT_ONCE = 50


def tested(design: Design, truths: Sequence[float], sets: int, seed: int) -> list[Equivalence]:
    """Draw so many sets, whose true accuracies are the truths by turns, and test each."""
    findings: list[Equivalence] = []
    for start in range(0, sets, AT_ONCE):
        truth = truths[start // AT_ONCE % len(truths)]
        stream = rng("cover of equivalence", seed, design.name, truth, start)
        world = World(design, stream, min(AT_ONCE, sets - start))
        values = effects(world, SHARES, float(ndtri(truth)))
        findings += [equivalence(clustered_mean(drawn, design.clusters)) for drawn in values.T]
    return findings


def share(findings: Sequence[Equivalence], finding: str) -> float:
    """Return the share of tests with this finding."""
    return float(np.mean([it.finding == finding for it in findings]))


def table(designs: Sequence[tuple[int, int, str]], sets: int, seed: int = 0) -> tuple[Table, float]:
    """Return one line a design, and the highest share that was shown at the margin."""
    rows, most = [], 0.0
    for size in designs:
        design, _ = planted_design(*size)
        at_margin = tested(design, (0.5 + MARGIN, 0.5 - MARGIN), sets, seed)
        at_null = tested(design, (0.5,), sets, seed)
        wrong, n = share(at_margin, "shown"), len(design.clusters)
        most = max(most, wrong)
        enough = np.mean([it.n_needed is not None and it.n_needed <= n for it in at_null])
        rows.append([
            design.name, f"{n:,}", f"{wrong:.3f}", f"{share(at_margin, 'refuted'):.3f}",
            f"{share(at_null, 'shown'):.3f}", f"{enough:.3f}",
        ])  # fmt: skip
    columns = ["users × questions", "rows", "at the margin: shown", "refuted", "at ½: shown",
               "n_needed at most the rows"]  # fmt: skip
    return Table(f"{sets:,} sets a cell, margin {MARGIN:g}", columns, rows), most


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    figures, most = table(DESIGNS, asked.sets, asked.seed)
    sys.stdout.write(render([figures], Form.MARKDOWN))
    held = most <= BAR
    sys.stdout.write(
        f"most shown at the margin: {most:.3f} (bar {BAR:g}){'' if held else ', broken'}\n"
    )
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
