"""How often the interval over scorers covers a difference of agreements, and what its test finds.

    python tools/cover_of_differences.py [WORLDS]

Scorers are normal in the figures of two benchmarks and in the quality of their picks; part of them
may be blind, level in both benchmarks. In the last worlds a scorer is above the blind in both
benchmarks or in neither, as mirrored accuracy and shift are. "expected": the difference that n
such scorers show on average, by 20,000 draws.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from palate.metrics.arrays import FloatArray
from palate.metrics.ranks import statistics
from palate.metrics.ranks.copula import fit_copula
from palate.metrics.ranks.difference import _exchanges, _one
from palate.reports import Form, Table, render

EXPECTING = 20_000


class World(NamedTuple):
    """How many scorers, how many of them blind, and correlations of the others."""

    n: int
    blind: int
    r_first: float
    r_second: float
    between: float
    together: bool = False
    """Whether both benchmarks put a scorer on the same side of the blind."""

    def draw(self, rng: np.random.Generator, sets: int) -> FloatArray:
        """Columns of first, second and picks, shape (3, sets, n)."""
        r1, r2, r12 = self.r_first, self.r_second, self.between
        root = np.linalg.cholesky(np.array([[1, r12, r1], [r12, 1, r2], [r1, r2, 1]]))
        first, second, picks = np.moveaxis(rng.standard_normal((sets, self.n, 3)) @ root.T, -1, 0)
        first, second = first + 0.3, second + 0.3
        if self.together:
            side = np.sign(first + second)
            first, second = side * np.abs(first), side * np.abs(second)
        first[:, : self.blind] = second[:, : self.blind] = 0
        return np.stack([first, second, picks])


WORLDS = (
    World(10, 0, 0.8, 0.8, 0.64),
    World(10, 0, 0.9, 0.5, 0.45),
    World(20, 0, 0.6, 0.2, 0.6),
    World(20, 0, 0.5, 0.5, 0.8),
    World(10, 5, 0.6, 0.2, 0.6),
    World(20, 10, 0.6, 0.2, 0.6),
    World(20, 10, 0.4, 0.4, 0.6),
    World(32, 19, 0.6, 0.0, 0.7),
    World(32, 19, 0.4, 0.4, 0.7),
    World(19, 9, 0.4, 0.4, 0.8, True),
    World(32, 19, 0.6, 0.2, 0.6, True),
)


def row(world: World, worlds: int) -> list[str]:
    """Return one line of the table."""
    kendall = statistics()[0]
    rng = np.random.default_rng(7)
    first, second, picks = world.draw(rng, EXPECTING)
    shown = kendall(first, picks) - kendall(second, picks)
    expected = float(shown.mean())
    covered, widths, found = 0, [], 0
    for at, columns in enumerate(np.moveaxis(world.draw(rng, worlds), 1, 0)):
        figures = (columns[0], columns[1], columns[2])
        exchanged, exact = _exchanges(*figures, seed=at, draws=999)
        population = fit_copula(*figures, kendall, seed=at)
        drawn = None if population is None else population.draw(world.n, seed=at)
        one = _one(kendall, figures, exchanged, exact, drawn, None, None, at)
        low, high = one.over_scorers.low, one.over_scorers.high
        assert low is not None
        assert high is not None
        covered += low <= expected <= high
        widths.append((high - low) / (2 * 1.96 * shown.std()))
        found += one.p is not None and one.p <= 0.05
    return [
        str(world.n), f"{world.blind}{', together' if world.together else ''}",
        f"{world.r_first}, {world.r_second}, {world.between}", f"{round(expected, 2) + 0.0:.2f}",
        f"{covered / worlds:.2f}", f"{np.mean(widths):.2f}", f"{found / worlds:.2f}",
    ]  # fmt: skip


def main() -> None:
    """Print the table."""
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    with ProcessPoolExecutor() as pool:
        rows = tuple(pool.map(partial(row, worlds=worlds), WORLDS))
    columns = ["scorers", "blind", "r first, second, between", "expected", "cover",
               "width over that of a normal", "p ≤ 0.05"]  # fmt: skip
    sys.stdout.write(render([Table(f"{worlds} worlds each", columns, rows)], Form("markdown")))


if __name__ == "__main__":
    main()
