"""compare(runs) → Comparison: paired tests on common pairs, rank sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import ClassVar

from palate.comparison.duplicates import group_of, refuse_duplicates
from palate.comparison.paired import paired_each
from palate.comparison.redraws import Contrast, NoisySide, is_shown, survivals
from palate.errors import ComparisonError
from palate.records import Record
from palate.runs import Run, RunLabel, Summary, Tabular, Test, Verdicts, load_runs, with_holm
from palate.scorers import is_baseline

LEAST_COMMON = 0.9
RunSource = Run | Path | str
Key = tuple[str, str]
"""Id and content of a row."""


@dataclass(frozen=True)
class RankedRun:
    """A run and the ranks that the tests leave open to it; a baseline has none."""

    run: Run
    best: int | None
    worst: int | None
    equal: tuple[Run, ...] = ()
    """Runs of the same verdicts on the same rows, which share its tests."""


@dataclass(frozen=True)
class ComparisonGroup:
    """Runs on the same rows under one context; mirrored couples apart from whole sets."""

    name: str
    context: str
    ranking: tuple[RankedRun, ...]
    """By accuracy, baselines in their place."""
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
    groups: tuple[ComparisonGroup, ...]

    @property
    def tests(self) -> tuple[Test, ...]:
        """The tests of all groups."""
        return tuple(test for group in self.groups for test in group.tests)

    def worse_than(self, standard: Sequence[Run]) -> list[Test]:
        """Return the tests that show another scorer to be worse than that of one of these runs.

        Raises `ComparisonError` where no run of them is compared with another scorer's.
        """
        given = {(run.cell, run.content_hash) for run in standard}
        worse, compared = [], False
        for group in self.groups:
            ranked = [place for place in group.ranking if place.best is not None]
            for place in ranked:
                equal = [(each.cell, each.content_hash) for each in (place.run, *place.equal)]
                if not given.isdisjoint(equal):
                    compared |= len(ranked) > 1 or len(equal) > 1
                    name = place.run.summary.scorer
                    worse += [it for it in group.tests if is_shown(it) and it.better == name]
        if not compared:
            raise ComparisonError(
                "--fail-if-worse: expected one of the runs that are compared, no baseline, beside "
                "another scorer's under its context"
            )
        return worse

    def content(self) -> Tests:
        """Return the runs and the tests."""
        return Tests(runs=tuple(run.summary for run in self.runs), tests=self.tests)


def compare(runs: RunSource | Iterable[RunSource]) -> Comparison:
    """Test every two scorers on their common pairs of one benchmark under one context.

    Runs are given as such, or by folders at or under which they lie. Rows are paired by id and
    content. Scorers with equal verdicts are tested once; baselines are not tested. Holm-corrected
    over all tests. Raises `ComparisonError` where two runs share under 90 % of the larger one's
    rows, and where no two scorers share a benchmark and a context.
    """
    given = [runs] if isinstance(runs, (str, Path, Run)) else runs
    every = [
        run for each in given for run in ([each] if isinstance(each, Run) else load_runs(each))
    ]
    grouped: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in every:
        if not run.summary.oracle:
            grouped[group_of(run), run.summary.context].append(run)
    for group in grouped.values():
        refuse_duplicates(group)
    places = {name: _equal(_sorted(group)) for name, group in grouped.items()}
    couples = {
        name: list(combinations([runs[0] for runs in _distinct(equal)], 2))
        for name, equal in places.items()
    }
    if not any(len(group) > 1 for group in grouped.values()):
        raise ComparisonError(
            "needs finished runs of two scorers on one benchmark under one context, none an oracle"
        )
    tests = iter(paired_tests([couple for each in couples.values() for couple in each]))
    groups = []
    for (name, context), group in grouped.items():
        mine = tuple(next(tests) for _ in couples[name, context])
        common = len(_common([run.verdicts for run in group]))
        ranking = tuple(_ranking(places[name, context], mine))
        groups.append(ComparisonGroup(name, context, ranking, mine, common))
    return Comparison(tuple(every), tuple(groups))


def _is_baseline(run: Run) -> bool:
    return is_baseline(run.summary.scorer)


def _distinct(places: Sequence[Sequence[Run]]) -> list[Sequence[Run]]:
    return [runs for runs in places if not _is_baseline(runs[0])]


def _equal(runs: Sequence[Run]) -> list[list[Run]]:
    # Runs with the same verdicts on the same rows, together.
    equal: dict[tuple[object, ...], list[Run]] = defaultdict(list)
    for run in runs:
        verdicts = run.verdicts
        key = (_is_baseline(run), tuple(verdicts.keys), verdicts.values.tobytes())
        equal[key].append(run)
    return list(equal.values())


def paired_tests(couples: Sequence[tuple[Run, Run]]) -> list[Test]:
    """Test the difference in accuracy of each two runs on the rows both scored."""
    keys = {id(run): run.verdicts.keys for couple in couples for run in couple}
    aligned = [_aligned(a, b, keys[id(a)], keys[id(b)]) for a, b in couples]
    tests = [
        Test(
            benchmark=a.summary.benchmark,
            a=RunLabel(scorer=a.summary.scorer, context=a.summary.context),
            b=RunLabel(scorer=b.summary.scorer, context=b.summary.context),
            metric="accuracy",
            method=difference.method,
            **difference.figures,
        )
        for (a, b), difference in zip(couples, paired_each(aligned), strict=True)
    ]
    return _redrawn(with_holm(tests, [test.p for test in tests]), couples, aligned)


def _redrawn(
    tests: Sequence[Test],
    couples: Sequence[tuple[Run, Run]],
    aligned: Sequence[tuple[Verdicts, Verdicts]],
) -> list[Test]:
    if not any(run.again is not None for couple in couples for run in couple):
        return list(tests)
    sides: dict[int, NoisySide] = {}
    contrasts = []
    for test, runs, rows in zip(tests, couples, aligned, strict=True):
        for run, verdicts in zip(runs, rows, strict=True):
            if id(verdicts) not in sides:
                sides[id(verdicts)] = NoisySide.of(run, verdicts)
        first, second = (sides[id(verdicts)] for verdicts in rows)
        contrasts.append(Contrast(first, second, "all", test))
    return [
        test if share is None else test.model_copy(update={"survival": share})
        for test, share in zip(tests, survivals(contrasts), strict=True)
    ]


def _aligned(a: Run, b: Run, of_a: Sequence[Key], of_b: Sequence[Key]) -> tuple[Verdicts, Verdicts]:
    # The verdicts of the rows both have, in one order.
    if a.summary.protocol != b.summary.protocol:
        raise ComparisonError(
            f"{a.summary.scorer} ran under protocol {a.summary.protocol}, {b.summary.scorer} under "
            f"{b.summary.protocol}: their accuracies are not comparable"
        )
    if of_a == of_b:
        return a.verdicts, b.verdicts
    common = _common([a.verdicts, b.verdicts])
    larger = max(len(of_a), len(of_b))
    if len(common) < LEAST_COMMON * larger:
        raise ComparisonError(
            f"{a.summary.scorer} ({a.summary.context}) and {b.summary.scorer} "
            f"({b.summary.context}) share {len(common)} of {larger} pairs of "
            f"{a.summary.benchmark}; {LEAST_COMMON:.0%} are needed. Run both on the same rows"
        )
    return _take(a.verdicts, common), _take(b.verdicts, common)


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


def _ranking(places: Sequence[Sequence[Run]], tests: Sequence[Test]) -> list[RankedRun]:
    # A rank is open to a run unless a corrected test at 5 % rules it out.
    ranked = [runs[0].summary.scorer for runs in _distinct(places)]
    sizes = {runs[0].summary.scorer: len(runs) for runs in places}
    above: dict[str, set[str]] = {scorer: set() for scorer in ranked}
    for test in tests:
        if test.value is not None and is_shown(test):
            a, b = test.a.scorer, test.b.scorer
            above[b if test.value > 0 else a].add(a if test.value > 0 else b)
    n = sum(sizes[scorer] for scorer in ranked)
    ranking = []
    for run, *equal in places:
        scorer = run.summary.scorer
        best = worst = None
        if scorer in above:
            best = 1 + sum(sizes[other] for other in above[scorer])
            worst = n - sum(sizes[other] for other in ranked if scorer in above[other])
        ranking.append(RankedRun(run, best, worst, tuple(equal)))
    return ranking
