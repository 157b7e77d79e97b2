"""A run by subgroups: a trait of the user, a category, a subset; and users who are worse off."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.benchmarks import Dataset
from palate.comparison.paired import figures_of
from palate.contexts import NOTHING, shows
from palate.errors import BenchmarkError, ComparisonError, UsageError
from palate.runs import (
    ReportedEstimate,
    Run,
    SubgroupEstimate,
    SubgroupGap,
    SubgroupReport,
    Verdicts,
)

FEW = 10
MIRRORED = (
    "mirrored couples: no accuracy by subgroup (the two users of a couple make ½ by construction)"
)
TRAIT = "trait:"
ALWAYS = ("subset", "user")
"""Groupings that any data has."""
Labels = tuple[NDArray[np.int64], list[str]]


def by_group(run: Run, by: str, *, against: Run | None = None) -> SubgroupReport:
    """Return a run's accuracy by `subset`, `category`, `month`, `user` or `trait:NAME`.

    Each group has its accuracy with the jackknife by user and question, its pairs and users, and
    its worst tenth of users; the largest gap between two groups of ten users or more is given with
    an interval and p, Holm-corrected over all such gaps. `against`, a run of the same scorer, adds
    the share of users harmed. Of lent users there is neither. Groups are in alphabetical order,
    months so in order of time; they are those of UTC. Rows that name none are counted. Raises
    `UsageError` for another `by`, `BenchmarkError` where no row names a group.

    >>> from palate.comparison import evaluate
    >>> by_group(evaluate("tasting", "longest", "none", root=None), "subset").note
    'mirrored couples: no accuracy by subgroup (the two users of a couple make ½ by construction)'
    """
    check_by(by)
    summary = run.summary
    cell = summary.model_dump(include={"benchmark", "scorer", "context", "oracle"})
    if run.verdicts.mirrored:
        return SubgroupReport(**cell, by=by, note=MIRRORED)
    # A lent user's row has the traits of its own user, whom its verdict does not name.
    lent, verdicts = shows(summary.context) == "borrowed", run.verdicts.by_id()
    codes, names = _labels(verdicts, by)
    if not names:
        raise BenchmarkError(
            f"no row of {summary.scorer} ({summary.context}) on {summary.benchmark} names a {by}; "
            "if the data do, run `palate evaluate` again (nothing is computed twice)"
        )
    groups = tuple(_figure(verdicts.take(codes == k), name) for k, name in enumerate(names))
    return SubgroupReport(
        **cell,
        by=by,
        groups=groups,
        n_unlabelled=int(np.count_nonzero(codes < 0)),
        largest_gap=None if lent else _largest_gap(verdicts, codes, groups),
        worst_decile=metrics.worst_decile(verdicts.values, verdicts.user_codes),
        users_harmed=users_harmed(run, against) if against is not None and not lent else None,
    )


def groups_of(runs: Sequence[Run], by: Sequence[str]) -> list[SubgroupReport]:
    """Return every run by every grouping; users harmed, against the same scorer shown nothing."""
    plain = {run.cell[:2]: run for run in runs if run.summary.context == NOTHING}
    found = []
    for grouping in dict.fromkeys(by):
        for run in runs:
            other = plain.get(run.cell[:2])
            found.append(by_group(run, grouping, against=None if other is run else other))
    return found


def check_by(by: str, pairs: Dataset | None = None) -> None:
    """Raise `UsageError` for no known grouping, `BenchmarkError` for one these pairs do not have.

    >>> check_by("trait")
    Traceback (most recent call last):
    palate.errors.UsageError: --by trait: write subset, category, month, user or trait:NAME
    """
    trait = by.removeprefix(TRAIT) if by.startswith(TRAIT) else None
    if by not in (*ALWAYS, "category", "month") and not trait:
        raise UsageError(f"--by {by}: write subset, category, month, user or trait:NAME")
    if pairs is None or pairs.mirrored or by in ALWAYS:
        return
    if by == "category" and not any(pair.category for pair in pairs.pairs):
        raise BenchmarkError(f"{pairs.name} has no categories, so there is no --by category")
    if by == "month" and not any(pair.date for pair in pairs.pairs):
        raise BenchmarkError(f"{pairs.name} has no dates, so there is no --by month")
    if trait:
        pairs.need_trait(trait)


def _labels(verdicts: Verdicts, by: str) -> Labels:
    # Of each row the position of its group among the sorted names; -1 where it names none.
    codes: NDArray[np.integer]
    if by == "subset":
        codes, texts = verdicts.subset_codes
    elif by == "user":
        users, codes = np.unique(verdicts.users, return_inverse=True)
        texts = users.tolist()
    elif by == "month":
        codes, texts = verdicts.month_codes
    else:
        codes, labels = verdicts.label_codes
        trait = by.removeprefix(TRAIT)
        texts = [of if by == "category" else traits.get(trait, "") for of, traits in labels]
    names = sorted({texts[code] for code in np.unique(codes).tolist()} - {""})
    position = {name: k for k, name in enumerate(names)}
    table = np.array([position.get(text, -1) for text in texts], dtype=np.int64)
    return table[codes], names


def _figure(part: Verdicts, name: str) -> SubgroupEstimate:
    n = len(np.unique(part.user_codes))
    return SubgroupEstimate(
        name=name,
        accuracy=ReportedEstimate.of(metrics.accuracy(part.values, part.clusters)),
        n_pairs=len(part),
        n_users=n,
        under_10_users=n < FEW,
        worst_decile=metrics.worst_decile(part.values, part.user_codes),
    )


def _largest_gap(
    verdicts: Verdicts, codes: NDArray[np.int64], groups: Sequence[SubgroupEstimate]
) -> SubgroupGap | None:
    values, clusters = verdicts.values, verdicts.clusters
    gaps = []
    for a, b in combinations([k for k, group in enumerate(groups) if not group.under_10_users], 2):
        rows = (codes == a) | (codes == b)
        gaps.append((a, b, metrics.group_gap(values[rows], codes[rows] == a, clusters.take(rows))))
    if not (gaps := [each for each in gaps if each[2].value is not None]):
        return None
    corrected = metrics.holm([estimate.p for _, _, estimate in gaps])
    tested = sum(p is not None for p in corrected)
    # Of equal gaps the first by name.
    best = max(range(len(gaps)), key=lambda k: (abs(gaps[k][2].value or 0.0), -k))
    a, b, gap = gaps[best]
    assert gap.value is not None
    figures = figures_of(gap) | {"value": abs(gap.value)}
    figures |= {"p_holm": corrected[best], "n_tested": tested}
    if gap.value < 0:  # the better group first
        a, b = b, a
        low, high = (None if end is None else -end for end in (gap.high, gap.low))
        figures |= {"low": low, "high": high}
    return SubgroupGap(a=groups[a].name, b=groups[b].name, **figures)


def users_harmed(run: Run, against: Run, *, seed: int = 0) -> ReportedEstimate:
    """Return the share of users whose accuracy is lower in `run` than in `against`.

    Both runs are of one scorer on the same rows. Counted are rows scored in both of which either
    run shows a part of the user; where neither shows any, all rows scored in both. The share is
    that of a normal model of users' true differences, with an interval by user, and by question
    where users share questions (`metrics.harmed_share`); n counts the users behind it. Raises
    `ComparisonError` for runs of two scorers, of other rows, or on mirrored couples.

    >>> from palate.comparison import evaluate
    >>> run = evaluate("tasting", "longest", "none", root=None)
    >>> users_harmed(run, run)
    Traceback (most recent call last):
    palate.errors.ComparisonError: longest: on mirrored couples the couple is the unit, not the user
    """
    summary, base = run.summary, against.summary
    if run.cell[:2] != against.cell[:2]:
        raise ComparisonError(
            f"{summary.scorer} on {summary.benchmark} and {base.scorer} on {base.benchmark}: users "
            "harmed needs two runs of one scorer on one benchmark"
        )
    if not run.verdicts.same_rows(against.verdicts):
        both = f"{summary.context} and {base.context}"
        raise ComparisonError(f"{summary.scorer}: the runs of {both} differ in their rows")
    if run.verdicts.mirrored:
        what = "on mirrored couples the couple is the unit, not the user"
        raise ComparisonError(f"{summary.scorer}: {what}")
    v, w = run.verdicts.by_id(), against.verdicts.by_id()
    shown = np.maximum(v.own_words, w.own_words) > 0
    differences = np.where(shown | ~shown.any(), v.values - w.values, np.nan)
    # A constant question is none: what users then share are texts, if anything.
    shared = v.clusters.take(~np.isnan(differences)).items is not None
    questions = v.question_codes if shared else None
    share = metrics.harmed_share(differences, v.user_codes, questions, seed=seed)
    return ReportedEstimate.of(share)
