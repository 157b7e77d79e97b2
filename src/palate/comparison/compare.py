"""compare(runs) → Comparison: paired tests on common pairs, rank sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.comparison.paired import paired
from palate.errors import ComparisonError
from palate.records import Record
from palate.runs import Run, Side, Summary, Tabular, Test, Verdicts, load_runs

LEAST_COMMON = 0.9
Given = Run | Path | str


@dataclass(frozen=True)
class Ranked:
    """A run and the ranks that the tests leave open to it."""

    run: Run
    best: int
    worst: int


@dataclass(frozen=True)
class Group:
    """Runs on the same rows: of one benchmark, mirrored couples apart from whole sets."""

    name: str
    ranking: tuple[Ranked, ...]
    """By accuracy."""
    tests: tuple[Test, ...]
    n_common: int
    """Rows that all of its runs have."""


class Tests(Record):
    """Of `palate compare`."""

    __test__ = False  # no test class of pytest's

    runs: tuple[Summary, ...]
    tests: tuple[Test, ...]


@dataclass(frozen=True)
class Comparison(Tabular):
    """Runs side by side; oracle runs stand in no group."""

    kind: ClassVar[str] = "comparison"
    content_type = Tests
    runs: tuple[Run, ...]
    groups: tuple[Group, ...]

    @property
    def tests(self) -> tuple[Test, ...]:
        """The tests of all groups."""
        return tuple(test for group in self.groups for test in group.tests)

    def content(self) -> Tests:
        """Return the runs and the tests."""
        return Tests(runs=tuple(run.summary for run in self.runs), tests=self.tests)


def compare(runs: Given | Iterable[Given]) -> Comparison:
    """Test every two runs of the same benchmark on their common pairs.

    Runs are given as such, or by folders at or under which they lie.
    Rows are paired by id and content. Raises `ComparisonError` where two runs share under 90 % of
    the larger one's rows, or where there are fewer than two contestants. Holm-corrected over all
    tests.
    """
    given = [runs] if isinstance(runs, (str, Path, Run)) else runs
    every = [
        run for each in given for run in ([each] if isinstance(each, Run) else load_runs(each))
    ]
    found: dict[str, list[Run]] = defaultdict(list)
    for run in every:
        if not run.summary.oracle:
            found[group_of(run)].append(run)
    for group in found.values():
        _refuse_twins(group)
    sides = {name: list(combinations(_sorted(group), 2)) for name, group in found.items()}
    tests = [paired_test(a, b) for pairs in sides.values() for a, b in pairs]
    if not tests:
        raise ComparisonError("needs two finished runs of one benchmark that are no oracles")
    corrected = iter(metrics.holm([test.p for test in tests]))
    left = iter(tests)
    groups = []
    for name, group in found.items():
        own = tuple(next(left).model_copy(update={"p_holm": next(corrected)}) for _ in sides[name])
        common = len(_common([run.verdicts for run in group]))
        groups.append(Group(name, tuple(_ranking(_sorted(group), own)), own, common))
    return Comparison(tuple(every), tuple(groups))


def group_of(run: Run) -> str:
    """Return the group a run is compared in."""
    name = run.summary.benchmark
    return f"{name} (mirrored couples)" if run.verdicts.mirrored else name


def _refuse_twins(runs: Sequence[Run]) -> None:
    seen: dict[tuple[str, str], Run] = {}
    for run in runs:
        twin = seen.setdefault((run.summary.scorer, run.summary.context), run)
        if twin is not run:
            raise ComparisonError(
                f"{run.summary.scorer} under {run.summary.context} is there twice, with other "
                f"settings: {twin.folder} and {run.folder}; name one of them"
            )


def paired_test(a: Run, b: Run) -> Test:
    """Test the difference in accuracy of two runs on the rows both scored."""
    if a.summary.protocol != b.summary.protocol:
        raise ComparisonError(
            f"{a.summary.scorer} ran under protocol {a.summary.protocol}, {b.summary.scorer} under "
            f"{b.summary.protocol}: their accuracies are not the same figure"
        )
    common = _common([a.verdicts, b.verdicts])
    larger = max(len(a.verdicts), len(b.verdicts))
    if len(common) < LEAST_COMMON * larger:
        raise ComparisonError(
            f"{a.summary.scorer} ({a.summary.context}) and {b.summary.scorer} "
            f"({b.summary.context}) share {len(common)} of {larger} pairs of "
            f"{a.summary.benchmark}; {LEAST_COMMON:.0%} are needed. Run both on the same rows"
        )
    difference = paired(_take(a.verdicts, common), _take(b.verdicts, common))
    return Test(
        benchmark=a.summary.benchmark,
        a=Side(scorer=a.summary.scorer, context=a.summary.context),
        b=Side(scorer=b.summary.scorer, context=b.summary.context),
        metric="accuracy",
        method=difference.method,
        **difference.figures,
    )


def _common(several: Sequence[Verdicts]) -> list[tuple[str, str]]:
    shared = set(several[0].keys).intersection(*(one.keys for one in several[1:]))
    return [key for key in several[0].keys if key in shared]


def _take(verdicts: Verdicts, keys: Sequence[tuple[str, str]]) -> Verdicts:
    position = {key: k for k, key in enumerate(verdicts.keys)}
    return Verdicts(verdicts.rows[position[key]] for key in keys)


def _sorted(runs: Sequence[Run]) -> list[Run]:
    return sorted(
        runs,
        key=lambda run: (
            -(run.accuracy if run.accuracy is not None else -1.0),
            run.summary.scorer,
            run.summary.context,
        ),
    )


def _ranking(runs: Sequence[Run], tests: Sequence[Test]) -> list[Ranked]:
    # A rank is open to a run unless a corrected test at 5 % rules it out.
    name = {(r.summary.scorer, r.summary.context): k for k, r in enumerate(runs)}
    beats: NDArray[np.bool_] = np.zeros((len(runs), len(runs)), dtype=bool)
    for test in tests:
        if test.value is not None and test.p_holm is not None and test.p_holm < 0.05:
            a, b = name[test.a.scorer, test.a.context], name[test.b.scorer, test.b.context]
            winner, loser = (a, b) if test.value > 0 else (b, a)
            beats[winner, loser] = True
    return [
        Ranked(run, 1 + int(beats[:, k].sum()), len(runs) - int(beats[k].sum()))
        for k, run in enumerate(runs)
    ]
