"""How often 95 % intervals cover the truth where users share questions.

    python tools/cover_on_shared.py FILE ... [--largest-question | --question BEGINNING]
    python tools/cover_on_shared.py [--skewed]

With files: who judged what is the file's (its test rows, and its mirrored couples), scorers are
planted. "p < 0.05": of two scorers of which neither is better, by the test that `palate compare`
uses. Without a file: users, questions and choices are planted too, in 27 designs; exit status 1
where a cell covers under 0.92 or all on average under 0.94, or where more than 7 % (6 % on average)
of the differences of nothing are found. `--skewed` plants scorers whose accuracy is skewed by user
or question instead, which a symmetric interval does not cover as often.

Variances of all draws at once come from sums by cluster; three draws of every cell are checked
against `palate.metrics.clustered_mean` to 1e-9.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from shared_designs import Design, file_designs, of_question, planted_designs
from shared_scorers import SKEWED, Kind, World, kinds_for

from palate.benchmarks import load_benchmark
from palate.comparison.paired import BY_USER, method_of
from palate.errors import PalateError
from palate.metrics import Clusters, Estimate, clustered_mean, sign_flip_test
from palate.metrics.arrays import FloatArray
from palate.metrics.clusters import Columns, jackknife, parts_of, ratio
from palate.metrics.estimates import ROUNDING, interval
from palate.reports import Form, Table, render
from palate.seeding import rng

COVER, MEAN_COVER = 0.92, 0.94
ALARMS, MEAN_ALARMS = 0.07, 0.06
AT_ONCE = 2_000_000
"""Values drawn at once."""
EQUAL = 1e-9


class Cover(NamedTuple):
    """How the intervals of one kind of scorer did in one design."""

    design: str
    kind: str
    difference: bool
    cover: float
    """Share of draws whose interval holds the truth; no interval holds nothing."""
    width: float
    """Mean over the draws that have an interval."""
    alarms: float
    """Share of draws with p < 0.05 against the truth."""


class Sums(NamedTuple):
    """A part of a variance: rows added up by cluster, and the rows outside of each."""

    sign: int
    by_cluster: csr_array
    left: FloatArray

    @classmethod
    def of(cls, sign: int, columns: Columns) -> Sums:
        """Build the matrix of a part, shape (clusters, rows)."""
        rows, size = columns[0].size, 1 + max(int(side.max()) for side in columns)
        ones, at = np.ones(rows), np.arange(rows)
        by_cluster = sum(csr_array((ones, (side, at)), shape=(size, rows)) for side in columns)
        return cls(sign, by_cluster, rows - by_cluster.sum(axis=1))


class ManyMeans:
    """Means of many draws over the same clusters, with palate's intervals."""

    def __init__(self, clusters: Clusters) -> None:
        self.clusters, self.n = clusters, len(clusters)
        ones, items = np.ones(self.n), clusters.items
        self.spread = jackknife(ratio(ones, ones), ones, clusters)
        self.users = [Sums.of(*part) for part in parts_of(clusters.users)]
        self.items = [] if items is None else [Sums.of(*part) for part in parts_of(items.columns)]
        self.cells = [Sums.of(*part) for part in clusters.cells]

    def estimates(self, values: FloatArray, kind: Kind) -> list[Estimate]:
        """Return one estimate a draw; values have shape (rows, draws)."""
        null, bounds = kind.null_and_bounds
        means = values.mean(axis=0)
        apart = values - means
        constant = np.abs(apart).max(axis=0) <= ROUNDING * (bounds[1] - bounds[0])
        whole = self.spread.variance is None
        variances = [None] * means.size if whole else self.variances(apart).tolist()
        return [
            interval(
                mean, replace(self.spread, variance=variance, constant=same), null, bounds
            )
            for mean, variance, same in zip(
                means.tolist(), variances, constant.tolist(), strict=True
            )
        ]  # fmt: skip

    def variances(self, apart: FloatArray) -> FloatArray:
        """Return V of each draw's mean from its residuals."""
        by_user = self._side(self.users, apart)
        if not self.items:
            return by_user
        both = by_user + self._side(self.items, apart) - self._signed(self.cells, apart)
        return np.maximum(by_user, both)

    def _side(self, parts: Sequence[Sums], apart: FloatArray) -> FloatArray:
        total = self._signed(parts, apart)
        if len(parts) == 1:
            return total
        floor = ((parts[1].by_cluster @ apart / self.n) ** 2).sum(axis=0)
        return np.maximum(total, floor)

    def _signed(self, parts: Sequence[Sums], apart: FloatArray) -> FloatArray:
        total = np.zeros(apart.shape[1])
        for sign, by_cluster, left in parts:
            total += sign * ((by_cluster @ apart / left[:, None]) ** 2).sum(axis=0)
        clusters = parts[0].left.size
        return total * (clusters - 1) / clusters if len(parts) == 1 else total


def measured(
    design: Design, kind: Kind, draws: int, *, seed: int = 0, test_alone: bool = True
) -> tuple[Cover, Cover]:
    """Draw worlds; return how intervals by user alone and palate's did in them.

    Without `test_alone`, differences are tested both ways only: sign flips take long.
    """
    made = [ManyMeans(clusters) for clusters in rules_of(design)]
    estimates: list[list[Estimate]] = [[] for _ in made]
    alarms = [0, 0]
    step = max(1, AT_ONCE // len(design.clusters))
    for start in range(0, draws, step):
        stream = rng("cover on shared", seed, design.name, kind.name, start)
        values = kind.values(World(design, stream, min(step, draws - start)))
        for rule, means in enumerate(made):
            some = means.estimates(values, kind)
            if not start:
                _check(values, some, means.clusters, kind)
            estimates[rule] += some
            if kind.difference and (rule or test_alone):
                alarms[rule] += _alarms(values, some, means.clusters)
    alone, both = (
        _cover(design, kind, listed, found) for listed, found in zip(estimates, alarms, strict=True)
    )
    return alone, both


def rules_of(design: Design) -> tuple[Clusters, Clusters]:
    """Return the clusters of both rules: users alone, and what palate knows of the rows."""
    return design.by_user_alone(), design.clusters


def _cover(design: Design, kind: Kind, estimates: Sequence[Estimate], alarms: int) -> Cover:
    ends = [(e.low, e.high) for e in estimates if e.low is not None and e.high is not None]
    low, high = np.array(ends).reshape(-1, 2).T
    held = np.count_nonzero((low <= kind.truth) & (kind.truth <= high))
    return Cover(
        design.name, kind.name, kind.difference, held / len(estimates),
        float(np.mean(high - low)) if low.size else np.nan,
        alarms / len(estimates),
    )  # fmt: skip


def _check(
    values: FloatArray, estimates: Sequence[Estimate], clusters: Clusters, kind: Kind
) -> None:
    """Stop where a draw's estimate is not that of palate's public function."""
    null, bounds = kind.null_and_bounds
    for draw in {0, len(estimates) // 2, len(estimates) - 1}:
        wanted = clustered_mean(values[:, draw], clusters, null=null, bounds=bounds)
        for name in ("value", "low", "high", "p"):
            ours, theirs = getattr(estimates[draw], name), getattr(wanted, name)
            if (ours is None) != (theirs is None) or abs((ours or 0) - (theirs or 0)) > EQUAL:
                raise SystemExit(f"{kind.name}: {name} is {ours}, palate's {theirs}")


def _alarms(values: FloatArray, estimates: Sequence[Estimate], clusters: Clusters) -> int:
    """Count the draws with p < 0.05, by the test of `palate.comparison.paired`."""
    p = [estimate.p for estimate in estimates]
    if method_of(clusters) == BY_USER:
        p = [sign_flip_test(draw, clusters.users[0]) for draw in values.T]
    return sum(x is not None and x < 0.05 for x in p)


def file_table(designs: Sequence[Design], draws: int, processes: int, seed: int = 0) -> Table:
    """Return the old and the new intervals of every kind of scorer over the designs of files."""
    cells = [(design, kind) for design in designs for kind in kinds_for(design)]
    covers = _all_measured(cells, draws, processes, seed, test_alone=True)
    rows = []
    for (design, kind), (alone, both) in zip(cells, covers, strict=True):
        clusters = design.clusters
        rows.append([
            design.name, kind.name, f"{len(clusters):,}", str(clusters.n_users),
            str(int(design.questions.max()) + 1), f"{kind.truth:.3f}",
            *(cell for rule in (alone, both) for cell in _cells(rule)),
        ])  # fmt: skip
    columns = ["file", "scorers", "rows", "users", "questions", "truth", "by user alone: cover",
               "width", "p < 0.05", "both ways: cover", "width", "p < 0.05"]  # fmt: skip
    return Table(f"{draws} draws", columns, rows, left=2)


def _cells(rule: Cover) -> list[str]:
    if np.isnan(rule.width):
        return ["–", "–", "–"]
    alarms = f"{rule.alarms:.3f}" if rule.difference else ""
    return [f"{rule.cover:.2f}", f"{rule.width:.3f}", alarms]


def planted_cells(
    designs: Iterable[tuple[Design, Design]],
    draws: int,
    processes: int,
    seed: int = 0,
    *,
    skewed: bool = False,
) -> list[tuple[Cover, Cover]]:
    """Return the old and the new interval of each kind of scorer in each planted design."""
    cells = [
        (design, kind)
        for rows, couples in designs
        for design in ((rows,) if skewed else (rows, couples))
        for kind in (SKEWED if skewed else kinds_for(design))
    ]
    return _all_measured(cells, draws, processes, seed, test_alone=False)


def planted_table(cells: Sequence[tuple[Cover, Cover]], draws: int) -> Table:
    """Return one line a design: its lowest cover and its highest rate of false alarms."""
    rows = []
    for name, group in groupby(cells, key=lambda cell: cell[0].design):
        alone, both = zip(*group, strict=True)
        lowest = min(both, key=lambda cover: cover.cover)
        most = max((c for c in both if c.difference), key=lambda cover: cover.alarms)
        rows.append([
            name, f"{min(c.cover for c in alone):.3f}", f"{lowest.cover:.3f}", lowest.kind,
            f"{np.mean([c.cover for c in both]):.3f}", f"{most.alarms:.3f}", most.kind,
        ])  # fmt: skip
    columns = ["users × questions", "by user alone: lowest cover", "both ways: lowest cover",
               "of", "mean", "most p < 0.05", "of"]  # fmt: skip
    return Table(f"{draws:,} draws a cell, {len(cells)} cells", columns, rows)


def totals(covers: Sequence[Cover]) -> list[tuple[str, float, float, bool]]:
    """Return what is held against a bar: its name, its value, the bar, and whether it holds."""
    held = [cover.cover for cover in covers]
    alarms = [cover.alarms for cover in covers if cover.difference]
    lowest, mean = min(held), float(np.mean(held))
    most, often = max(alarms), float(np.mean(alarms))
    return [
        ("lowest cover", lowest, COVER, lowest >= COVER),
        ("mean cover", mean, MEAN_COVER, mean >= MEAN_COVER),
        ("most false alarms", most, ALARMS, most <= ALARMS),
        ("mean of false alarms", often, MEAN_ALARMS, often <= MEAN_ALARMS),
    ]


def _all_measured(
    cells: Sequence[tuple[Design, Kind]], draws: int, processes: int, seed: int, *, test_alone: bool
) -> list[tuple[Cover, Cover]]:
    measure = partial(measured, draws=draws, seed=seed, test_alone=test_alone)
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(measure, *zip(*cells, strict=True)))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--draws", type=int, help="300 by default, 2,000 in planted designs")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skewed", action="store_true", help="scorers right for most users only")
    cut = parser.add_mutually_exclusive_group()
    cut.add_argument("--largest-question", action="store_true", help="only its rows")
    cut.add_argument("--question", metavar="BEGINNING", help="only rows of the question so begun")
    asked = parser.parse_args()
    if asked.files:
        designs: list[Design] = []
        for file in asked.files:
            try:
                pairs = load_benchmark(file).select()
            except PalateError as error:
                raise SystemExit(str(error)) from error
            if asked.largest_question or asked.question is not None:
                pairs = replace(pairs, rows=tuple(of_question(pairs.pairs, asked.question)))
            designs += file_designs(pairs.name, pairs)
        table = file_table(designs, asked.draws or 300, asked.processes, asked.seed)
        sys.stdout.write(render([table], Form.MARKDOWN))
        return 0
    draws = asked.draws or 2_000
    cells = planted_cells(
        planted_designs(), draws, asked.processes, asked.seed, skewed=asked.skewed
    )
    sys.stdout.write(render([planted_table(cells, draws)], Form.MARKDOWN))
    lines = totals([both for _, both in cells])
    for name, value, bar, held in lines:
        sys.stdout.write(f"{name}: {value:.3f} (bar {bar:g}){'' if held else ', broken'}\n")
    return int(not all(held for *_, held in lines))


if __name__ == "__main__":
    sys.exit(main())
