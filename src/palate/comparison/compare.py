"""compare(runs) → Comparison: paired tests on common pairs, rank sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.errors import ComparisonError
from palate.runs import Run, Side, Test, Verdicts

LEAST_COMMON = 0.9
METHOD = {
    False: "sign-flip permutation by user; interval: user jackknife",
    True: "t of the dyadic user jackknife over couples",
}


@dataclass(frozen=True)
class Ranked:
    """A run and the ranks that the tests leave open to it."""

    run: Run
    best: int
    worst: int


@dataclass(frozen=True)
class Comparison:
    """Runs of one benchmark side by side."""

    runs: tuple[Run, ...]
    tests: tuple[Test, ...]
    ranking: tuple[Ranked, ...]
    """By accuracy; oracle runs are left out."""
    n_common: dict[str, int]
    """Rows that all runs of a benchmark scored."""


def compare(runs: Sequence[Run]) -> Comparison:
    """Test every two runs of the same benchmark on their common pairs.

    Rows are paired by id and content. Raises `ComparisonError` where two runs share under 90 % of
    the larger one's rows, or where there are fewer than two contestants. Holm-corrected over all
    tests.
    """
    contestants = [run for run in runs if not run.summary.oracle]
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in contestants:
        groups[run.summary.benchmark].append(run)
    tests = [
        paired_test(a, b) for group in groups.values() for a, b in combinations(_sorted(group), 2)
    ]
    if not tests:
        raise ComparisonError("needs two finished runs of one benchmark that are no oracles")
    corrected = metrics.holm([test.p for test in tests])
    tests = [
        test.model_copy(update={"p_holm": p}) for test, p in zip(tests, corrected, strict=True)
    ]
    ranking = [one for group in groups.values() for one in _ranking(_sorted(group), tests)]
    common = {name: len(_common([r.verdicts for r in group])) for name, group in groups.items()}
    return Comparison(tuple(runs), tuple(tests), tuple(ranking), common)


def paired_test(a: Run, b: Run) -> Test:
    """Test the difference in accuracy of two runs on the rows both scored."""
    if a.summary.protocol != b.summary.protocol:
        raise ComparisonError(
            f"{a.summary.scorer} ran under protocol {a.summary.protocol}, {b.summary.scorer} under "
            f"{b.summary.protocol}: their accuracies are not the same figure"
        )
    _refuse_few(a, b)
    common = _common([a.verdicts, b.verdicts])
    ours, theirs = _take(a.verdicts, common), _take(b.verdicts, common)
    scored = ~np.isnan(ours.values) & ~np.isnan(theirs.values)
    mirrored = a.verdicts.mirrored and b.verdicts.mirrored
    if mirrored:
        first, second = ours.couples.T
        kept = scored[first] & scored[second]
        first, second = first[kept], second[kept]
        estimate = metrics.paired_couple_difference(
            metrics.mirrored_values(ours.values[first], ours.values[second]),
            metrics.mirrored_values(theirs.values[first], theirs.values[second]),
            ours.users[first],
            ours.users[second],
        )
        p, used = estimate.p, np.concatenate([first, second])
    else:
        used = np.flatnonzero(scored)
        x, y, users = ours.values[used], theirs.values[used], ours.users[used]
        estimate = metrics.paired_difference(x, y, users)
        p = metrics.sign_flip_test(x - y, users) if used.size else None
    return Test(
        benchmark=a.summary.benchmark,
        a=Side(scorer=a.summary.scorer, context=a.summary.context),
        b=Side(scorer=b.summary.scorer, context=b.summary.context),
        metric="accuracy",
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=estimate.n,
        n_users=len(set(ours.users[used].tolist())),
        method=METHOD[mirrored],
        p=p,
    )


def _refuse_few(a: Run, b: Run) -> None:
    common = len(_common([a.verdicts, b.verdicts]))
    larger = max(len(a.verdicts), len(b.verdicts))
    if common < LEAST_COMMON * larger:
        raise ComparisonError(
            f"{a.summary.scorer} ({a.summary.context}) and {b.summary.scorer} "
            f"({b.summary.context}) share {common} of {larger} pairs of {a.summary.benchmark}; "
            f"{LEAST_COMMON:.0%} are needed. Run both on the same rows"
        )


def _key(verdicts: Verdicts) -> list[tuple[str, str]]:
    return [(row.id, row.content) for row in verdicts.rows]


def _common(several: Sequence[Verdicts]) -> list[tuple[str, str]]:
    shared = set(_key(several[0])).intersection(*map(_key, several[1:]))
    return [key for key in _key(several[0]) if key in shared]


def _take(verdicts: Verdicts, keys: Sequence[tuple[str, str]]) -> Verdicts:
    position = {key: k for k, key in enumerate(_key(verdicts))}
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
        if test.benchmark != runs[0].summary.benchmark or test.value is None:
            continue
        if test.p_holm is not None and test.p_holm < 0.05:
            a, b = name[test.a.scorer, test.a.context], name[test.b.scorer, test.b.context]
            winner, loser = (a, b) if test.value > 0 else (b, a)
            beats[winner, loser] = True
    return [
        Ranked(run, 1 + int(beats[:, k].sum()), len(runs) - int(beats[k].sum()))
        for k, run in enumerate(runs)
    ]
