"""Sections 5 and 6: how accuracy is spread over users, and over subsets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from palate.reports.numbers import NONE, count, figure, plain
from palate.reports.page.contents import BenchmarkRuns
from palate.reports.page.figures.plots import subset_panels, user_dots
from palate.reports.page.names import Names
from palate.reports.page.parts import Picture
from palate.reports.table import Table
from palate.runs import Run

MOST_PANELS, MOST_ROWS = 6, 12


def users(benchmark: BenchmarkRuns, names: Names, number: int) -> Iterator[object]:
    """Yield how accuracy is spread over users, the worst served first; not of mirrored couples.

    There the two users of a couple make 0.500 together for a scorer that ignores them.
    """
    if benchmark.mirrored:
        return
    some = (benchmark.main_findings or benchmark.findings)[:MOST_PANELS]
    labels = names.findings(some)
    means = {name: _by_user(f.run, names) for name, f in zip(labels, some, strict=True)}
    drawn = {
        name: (np.array([mean for mean, _ in of.values()]), np.array([n for _, n in of.values()]))
        for name, of in means.items()
        if of
    }
    if not drawn:
        return
    known = sorted({user for of in means.values() for user in of}, key=lambda u: int(u[1:]))
    rows = []
    for user in known:
        cells = [of.get(user) for of in means.values()]
        pairs = max(cell[1] for cell in cells if cell is not None)
        rows.append([user, count(pairs), *(plain(cell[0]) if cell else NONE for cell in cells)])
    worst = [f.run.summary.worst_decile or {} for f in some]
    yield Table(
        f"{benchmark.name}: the tenth of the users who are served worst",
        ["scorer", "accuracy", "mean of users", "worst tenth, raw", "shrunken"],
        [
            [
                name,
                figure(f.run.summary.accuracy),
                figure(f.run.summary.macro_accuracy),
                plain(each.get("raw")),
                plain(each.get("shrunken")),
            ]
            for name, f, each in zip(labels, some, worst, strict=True)
        ],
        ["Raw is low by luck where users have few pairs. Shrunken is corrected for that luck."],
    )
    table = Table(f"{benchmark.name}: accuracy by user", ["user", "pairs", *labels], rows)
    yield Picture(
        f"users-{number}",
        f"Accuracy by user, {benchmark.name}",
        "A dot is a user, the worst served on the left. Its size is how many pairs the user has. "
        "The dashed line is 0.5.",
        table,
        user_dots(drawn),
    )


def _by_user(run: Run, names: Names) -> dict[str, tuple[float, int]]:
    verdicts = run.verdicts
    values: NDArray[np.float64] = verdicts.values
    scored = ~np.isnan(values)
    owners, codes = np.unique(verdicts.users[scored], return_inverse=True)
    counts = np.bincount(codes, minlength=len(owners))
    sums = np.bincount(codes, values[scored], minlength=len(owners))
    return {
        names.user(user): (total / n, n)
        for user, total, n in zip(owners.tolist(), sums.tolist(), counts.tolist(), strict=True)
    }


def subsets(benchmark: BenchmarkRuns, names: Names, number: int) -> Iterator[Picture]:
    """Yield accuracy by subset, all on one axis; of subsets that every scorer has."""
    some = (benchmark.main_findings or benchmark.findings)[:MOST_ROWS]
    labels = names.findings(some)
    sizes: dict[str, int] = {}
    for f in some:
        for name, estimate in f.run.summary.subsets.items():
            sizes[name] = max(sizes.get(name, 0), estimate.n)
    largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:MOST_ROWS]
    rows = {
        name: [(label, f.run.summary.subsets[name]) for label, f in zip(labels, some, strict=True)]
        for name in sorted(largest)
        if all(name in f.run.summary.subsets for f in some)
    }
    if len(rows) < 2:
        return
    cells = [
        [name, count(sizes[name]), *(figure(estimate) for _, estimate in each)]
        for name, each in rows.items()
    ]
    unit = "couples" if benchmark.mirrored else "pairs"
    table = Table(f"{benchmark.name}: accuracy by subset", ["subset", unit, *labels], cells)
    yield Picture(
        f"subsets-{number}",
        f"Accuracy by subset, {benchmark.name}",
        "Each panel is a subset; a dot is a scorer’s accuracy with the user’s own posts, a line "
        "its 95 % interval.",
        table,
        subset_panels(rows, 0.5 if benchmark.mirrored else None),
    )
