"""compare(runs) → Comparison: paired tests on common pairs, rank sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from palate.comparison.gains import IdentityParts, identity_parts
from palate.comparison.paired import paired_each
from palate.comparison.redraws import Contrast, NoisySide, is_shown, with_survival
from palate.contexts import NOTHING, shows
from palate.errors import ComparisonError
from palate.records import Record
from palate.records.arguments import checked, grouped
from palate.runs import (
    ResultSource,
    Run,
    RunLabel,
    Summary,
    Tabular,
    Test,
    Verdicts,
    load_runs,
    read_manifest,
    with_holm,
)
from palate.scorers import is_baseline

LEAST_COMMON = 0.9
Key = tuple[str, str]
"""Id and content of a row."""
DRAWN = ("limit", "since", "until")
"""Parts of a run's identity that say which rows of a file it is of."""
HASHED = {
    "rows": "rows",
    "columns": "columns",
    "fingerprints": "model or code",
    "context_fingerprint": "what the context is made with",
}
"""Parts of a run's identity whose values tell a reader nothing, in words."""


@dataclass(frozen=True)
class RankedRun:
    """A run and the ranks that the tests leave open to it; a baseline has none."""

    run: Run
    best: int | None
    worst: int | None
    equal: tuple[Run, ...] = ()
    """Runs of the same verdicts on the same rows, which share its tests."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """It, and those like it."""
        return (self.run, *self.equal)


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

    @property
    def runs(self) -> list[Run]:
        """All of them, in the order of the ranking."""
        return [run for ranked in self.ranking for run in ranked.runs]


class Tests(Record):
    """Of `palate compare`."""

    __test__ = False  # no test class of pytest's

    runs: tuple[Summary, ...]
    tests: tuple[Test, ...]
    kinds: tuple[IdentityParts, ...] = ()
    """Only where runs are of contexts with `same`."""


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
        """Return tests that show a scorer to be worse; `ComparisonError` for none to compare."""
        standards = {(run.cell, run.content_hash) for run in standard}
        worse, compared = [], False
        for group in self.groups:
            ranked = [place for place in group.ranking if place.best is not None]
            for place in ranked:
                equal = [(each.cell, each.content_hash) for each in place.runs]
                if not standards.isdisjoint(equal):
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
        return Tests(runs=tuple(r.summary for r in self.runs), tests=self.tests, kinds=self.kinds)

    @property
    def kinds(self) -> tuple[IdentityParts, ...]:
        """What of the identity gains knows the person, and what the kind."""
        sets = groups_of_runs(self.runs).values()
        return tuple(each for runs in sets for each in identity_parts(runs))


@checked
def compare(runs: ResultSource | Iterable[ResultSource]) -> Comparison:
    """Test every two scorers on their common pairs of one benchmark under one context.

    Runs are given as such, or by folders at or under which they lie. Rows are paired by id and
    content. Scorers with equal verdicts are tested once; baselines are not tested. Holm-corrected
    over all tests. A personal model that is shown nothing stands beside scorers shown the user too.
    Raises `ComparisonError` where two runs share under 90 % of the larger one's
    rows, and where no two scorers share a benchmark and a context.
    """
    every = load_runs(runs)
    runs_of = _by_context([run for run in every if not run.summary.oracle])
    if not any(len(group) > 1 for group in runs_of.values()):
        raise ComparisonError(
            "needs finished runs of two scorers on one benchmark under one context, none an "
            f"oracle; here are {', '.join(map(' under '.join, runs_of)) or 'none'}"
        )
    places = {name: _equal(group) for name, group in runs_of.items()}
    couples = {
        name: list(combinations([runs[0] for runs in _distinct(equal)], 2))
        for name, equal in places.items()
    }
    tests = iter(paired_tests([couple for each in couples.values() for couple in each]))
    groups = []
    for (name, context), group in runs_of.items():
        mine = tuple(next(tests) for _ in couples[name, context])
        common = len(_common([run.verdicts for run in group]))
        ranking = tuple(_ranking(places[name, context], mine))
        groups.append(ComparisonGroup(name, context, ranking, mine, common))
    return Comparison(tuple(every), tuple(groups))


def _by_context(ranked: Sequence[Run]) -> dict[tuple[str, str], list[Run]]:
    # What a personal model knows of its user it need not be shown: shown nothing it stands beside
    # scorers that are shown the user.
    under = {
        (name, context): runs
        for name, some in groups_of_runs(ranked).items()
        for context, runs in grouped(some, lambda run: run.summary.context).items()
    }
    groups = {}
    for (name, context), runs in under.items():
        scorers = {run.summary.scorer for run in runs}
        named = [(run, run.summary.scorer) for run in under.get((name, NOTHING), ())]
        others = [(run, by) for run, by in named if by not in scorers and "state=" not in by]
        states = [run for run, by in others if by.startswith("personal:")]
        if shows(context) != "user" or not states or all(map(_is_baseline, runs)):
            groups[name, context] = runs
        else:
            groups[name, f"{context}, or the user's state"] = [*runs, *states]
    return groups


def _is_baseline(run: Run) -> bool:
    return is_baseline(run.summary.scorer)


def _distinct(places: Sequence[Sequence[Run]]) -> list[Sequence[Run]]:
    return [runs for runs in places if not _is_baseline(runs[0])]


def _equal(runs: Sequence[Run]) -> list[list[Run]]:
    # Runs with the same verdicts on the same rows, together; the most accurate first.
    def verdicts(run: Run) -> tuple[object, ...]:
        return _is_baseline(run), tuple(run.verdicts.keys), run.verdicts.values.tobytes()

    by = sorted(runs, key=lambda it: (1.0 if it.accuracy is None else -it.accuracy, *it.cell[1:]))
    return list(grouped(by, verdicts).values())


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
    contrasts = {}
    for k, (test, runs, rows) in enumerate(zip(tests, couples, aligned, strict=True)):
        for run, verdicts in zip(runs, rows, strict=True):
            if id(verdicts) not in sides:
                sides[id(verdicts)] = NoisySide.of(run, verdicts)
        first, second = (sides[id(verdicts)] for verdicts in rows)
        contrasts[k] = Contrast(first, second, "all", test)
    return with_survival(tests, contrasts)


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


def groups_of_runs(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs by what they are compared in: mirrored couples stand apart from whole sets.

    A file that was read twice, each time in another way, is two sets, named by their options.
    Raises `ComparisonError` for two runs of one scorer under one context in one of them.
    """
    couples, agreed = " (mirrored couples)", " --agreed only"
    sets = grouped(
        runs, lambda it: (it.summary.benchmark, it.verdicts.mirrored, bool(it.summary.agreed_of))
    )
    groups: dict[str, list[Run]] = {}
    for (benchmark, mirrored, selected), some in sets.items():
        name = benchmark + couples * mirrored
        parts = {name + agreed * selected: some}
        if len({run.cell for run in some}) < len(some):
            parts = {f"{name}{how}": part for how, part in grouped(some, _read_by).items()}
        for part in parts.values():
            _refuse_duplicates(part)
        groups |= parts
    return groups


def _read_by(run: Run) -> str:
    if run.folder is None:
        return " --agreed only" * bool(run.summary.agreed_of)
    manifest = read_manifest(run.folder)
    drawn = {name: manifest.identity.get(name) for name in DRAWN}
    words = [word for name, value in drawn.items() if value for word in (f"--{name}", str(value))]
    return "".join(f" {word}" for word in (*manifest.command[2:], *words))


def _refuse_duplicates(runs: Sequence[Run]) -> None:
    seen: dict[tuple[str, str, str], Run] = {}
    for run in runs:
        first = seen.setdefault(run.cell, run)
        if first is not run:
            raise ComparisonError(
                f"{' under '.join(run.cell[1:])} is there twice: {first.folder} and {run.folder}"
                f"{_differences(first, run)}; name one of them"
            )


def _differences(first: Run, second: Run) -> str:
    if first.folder is None or second.folder is None:
        return ""
    a, b = (read_manifest(folder).identity for folder in (first.folder, second.folder))
    if a == b:
        return " have the same settings and other rows or figures: palate verify tells which to use"
    words = [
        HASHED.get(name) or f"{name} ({_word(a.get(name))}, {_word(b.get(name))})"
        for name in dict.fromkeys([*a, *b])
        if a.get(name) != b.get(name)
    ]
    return f" differ in {', '.join(words)}" if words else ""


def _word(value: object) -> str:
    return "none" if value is None else str(value)
