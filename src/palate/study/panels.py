"""The figures of some raters: agreement with each other and with scorers, and equal quality."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from palate.contexts import usual_name
from palate.errors import UsageError
from palate.metrics import (
    Clusters,
    Estimate,
    clustered_mean,
    equivalence,
    paired_difference,
    rater_agreement,
)
from palate.metrics.ratings import Measure
from palate.records import Outcome, Record
from palate.records.arguments import grouped
from palate.runs import ReportedEstimate, Run, holm_within
from palate.study.records import HIGHEST, LOWEST, AnswerRow

Group = Literal["choices", "ratings", "quality", "scorers"]
MEASURES: dict[Group, tuple[Measure, ...]] = {
    "choices": ("percent", "nominal"),
    "ratings": ("percent", "ordinal", "interval"),
}
Value = tuple[float, Hashable, AnswerRow]
"""A value, what it is of, and in whose answer."""
BY_LAW = "not tested: no rated item has one chosen answer; where users chose both, it is 0 by law"
BLIND = "not shown: these raters are not shown to rate their checks apart by more than the margin"
APART = "not shown: nobody rated both pairs and checks"
FINDINGS = {"shown": "equivalent", "refuted": "different"}
SIDES: dict[str | None, int] = {"first": 1, "same": 0, "second": -1}
PICKS = {Outcome.CHOSEN: 1, Outcome.TIE: 0, Outcome.REJECTED: -1}


class Figure(Record):
    """One figure of some raters."""

    group: Group
    of: str
    """The context, the dimension of ratings, or the scorer and its context."""
    measure: str
    estimate: ReportedEstimate
    p: float | None = None
    """Of two one-sided tests against the margin; of scorers against another rater, by Holm."""
    finding: str | None = None
    """Of quality: `equivalent`, `different`, or `not shown` and why."""

    @classmethod
    def make(
        cls, group: Group, of: str, measure: str, estimate: Estimate, **more: float | str | None
    ) -> Figure:
        """Return a figure over raters and pairs, named so where it has no interval."""
        reported = ReportedEstimate.of(estimate).called("rater", "pair")
        return cls.model_validate(
            {"group": group, "of": of, "measure": measure, "estimate": reported, **more}
        )


class Panel(Record):
    """Every figure of some raters."""

    raters: int
    items: int
    answers: int
    """Without those skipped, checks, and what was asked again."""
    figures: tuple[Figure, ...]


def counted(answers: Iterable[AnswerRow]) -> list[AnswerRow]:
    """Return the answers that say something of an item: no checks, repeats or skipped ones."""
    return [a for a in answers if a.kind == "pair" and not a.again and a.choice in SIDES]


def panel(answers: Sequence[AnswerRow], runs: Sequence[Run], margin: float) -> Panel:
    """Return the figures of these answers, all of raters who count."""
    pairs, checks = counted(answers), [row for row in answers if row.kind == "check"]
    figures: list[Figure] = []
    contexts = [row.contexts or ("",) for row in pairs]
    for context in sorted({name for names in contexts for name in names}):
        rows = [row for row, names in zip(pairs, contexts, strict=True) if context in names]
        figures += _agree("choices", context, [(SIDES[row.choice], row.item, row) for row in rows])
    for name in dict.fromkeys(name for row in pairs for name in row.ratings):
        rows = [row for row in pairs if name in row.ratings]
        rated = [(row.ratings[name][k], (row.item, k), row) for row in rows for k in (0, 1)]
        figures += _agree("ratings", name, rated)
        of_pairs, of_checks = differences(pairs, name), differences(checks, name)
        figures += equal_quality(of_pairs, of_checks, name, margin)
    figures += beside_people(pairs, runs)
    return Panel(
        raters=len({answer.rater for answer in pairs}),
        items=len({answer.item for answer in pairs}),
        answers=len(pairs),
        figures=tuple(figures),
    )


def _agree(group: Group, of: str, given: Sequence[Value]) -> Iterator[Figure]:
    values, units, answers = zip(*given, strict=True)
    rows = Clusters.of([a.rater for a in answers], questions=[a.pair for a in answers])
    choices = group == "choices"
    for measure in MEASURES[group]:
        agreed = rater_agreement(values, units, rows, measure=measure, both_orders=choices)
        yield Figure.make(group, of, measure if measure == "percent" else f"α {measure}", agreed)
    if choices:
        gold = [SIDES.get(answer.gold, math.nan) for answer in answers]
        right = clustered_mean((1 + np.multiply(values, gold)) / 2, rows)
        if right.value is not None:  # None where the users of every item chose oppositely
            yield Figure.make(group, of, "as the gold", right)


class RatingDifference(NamedTuple):
    """The difference of an answer's two ratings, whose it is, and of which two answers."""

    difference: float
    rater: Hashable
    pair: Hashable


def differences(answers: Iterable[AnswerRow], dimension: str) -> list[RatingDifference]:
    """Return chosen less rejected of pairs, expected less other of checks."""
    rated = []
    for row in answers:
        side, scores = row.expected or row.gold, row.ratings.get(dimension)
        if side in {"first", "second"} and scores:
            apart = float(scores[0] - scores[1]) * (1 if side == "first" else -1)
            rated.append(RatingDifference(apart, row.rater, row.pair))
    return rated


def equal_quality(
    pairs: Sequence[RatingDifference],
    checks: Sequence[RatingDifference],
    dimension: str,
    margin: float,
) -> tuple[Figure, Figure]:
    """Test that the mean difference of pairs is within the margin, clustered by rater and pair.

    Only raters can show it whose mean difference on checks is above the margin by its 95 %
    interval: raters who see nothing find everything alike. So where checks were rated, raters count
    who rated both; where nobody did, both figures are of all, and show nothing equivalent.
    Different: the whole interval of the pairs lies beyond the margin. Returns the figure of pairs,
    with the finding, and of checks.
    """
    rated, both = bool(pairs), {row.rater for row in pairs} & {row.rater for row in checks}
    if both:
        pairs, checks = ([row for row in rows if row.rater in both] for rows in (pairs, checks))
    of_pairs, of_checks = _mean(pairs), _mean(checks)
    tested = equivalence(of_pairs, null=0, margin=margin)
    finding = FINDINGS.get(tested.finding) or tested.words("ratings")
    if not rated:
        finding = BY_LAW
    elif finding == "equivalent" and checks and not both:
        finding = APART
    elif finding == "equivalent" and not (of_checks.low is not None and of_checks.low > margin):
        finding = BLIND
    more = {"p": tested.p, "finding": finding}
    return (
        Figure.make("quality", dimension, "chosen − rejected", of_pairs, **more),
        Figure.make("quality", dimension, "on checks", of_checks),
    )


def _mean(rated: Sequence[RatingDifference]) -> Estimate:
    values, raters, pairs = zip(*rated, strict=True) if rated else ((), (), ())
    rows, most = Clusters.of(raters, questions=pairs), float(HIGHEST - LOWEST)
    return clustered_mean(values, rows, null=0, bounds=(-most, most))


def beside_people(answers: Sequence[AnswerRow], runs: Sequence[Run]) -> Iterator[Figure]:
    """Yield each run's agreement with the raters of items that two have judged or more.

    Over pairs of raters of one item, clustered by both and by the pair of answers: a scorer's
    agreement is its mean with either, and a tie or no difference counts one half. With a majority
    it would agree more than any rater does. Raises `UsageError` for several runs of a scorer under
    one context.
    """
    items = grouped(answers, lambda answer: answer.item)
    tested: dict[str, tuple[Estimate, Estimate, Estimate]] = {}
    for run in runs:
        picks = _picks(items, run)
        couples = [both for item in picks for both in combinations(items[item], 2)]
        if couples:
            first, second = zip(*couples, strict=True)
            a, b = (np.array([SIDES[answer.choice] for answer in side]) for side in (first, second))
            raters = ([answer.rater for answer in side] for side in (first, second))
            rows = Clusters.of(*raters, questions=[answer.pair for answer in first])
            pick = np.array([picks[answer.item] for answer in first])
            scorer, people = (1 + pick * (a + b) / 2) / 2, (1 + a * b) / 2
            means = clustered_mean(scorer, rows), clustered_mean(people, rows)
            name = f"{run.summary.scorer} ({usual_name(run.summary.context)})"
            if name in tested:
                raise UsageError(f"agreement: several runs of {name} scored these items; name one")
            tested[name] = (*means, paired_difference(scorer, people, rows))
    corrected = holm_within([""] * len(tested), [last.p for *_, last in tested.values()])
    for (name, (with_rater, people, difference)), p in zip(tested.items(), corrected, strict=True):
        yield Figure.make("scorers", name, "with a rater", with_rater)
        yield Figure.make("scorers", name, "another rater", people)
        yield Figure.make("scorers", name, "difference", difference, p=p)


def _picks(items: Mapping[str, Sequence[AnswerRow]], run: Run) -> dict[str, float]:
    """Of each item: 1 where the run prefers its first answer, -1 the second, 0 for a tie."""
    rows = {row.id: row for row in run.verdicts.rows if row.outcome in PICKS}
    picks = {}
    for item, (answer, *_) in items.items():
        named = [name for context, name in answer.rows if context == run.summary.context]
        sides = [
            PICKS[row.outcome] * (1 if row.response_hashes == answer.responses else -1)
            for row in map(rows.get, named)
            if row and {*row.response_hashes} == {*answer.responses}
        ]
        if sides:
            picks[item] = sum(sides) / len(sides)
    return picks
