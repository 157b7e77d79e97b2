"""Scorers beside people: how often each agrees with a rater, and how often another rater does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from palate.contexts import usual_name
from palate.errors import UsageError
from palate.metrics import Clusters, Estimate, clustered_mean, paired_difference
from palate.records import Outcome
from palate.runs import Run, holm_within
from palate.study.agreement.result import Figure
from palate.study.records import AnswerRow

SIDES: dict[str | None, int] = {"first": 1, "same": 0, "second": -1}
PICKS = {Outcome.CHOSEN: 1, Outcome.TIE: 0, Outcome.REJECTED: -1}


def beside_people(answers: Sequence[AnswerRow], runs: Sequence[Run]) -> Iterator[Figure]:
    """Yield each run's agreement with the raters of items that two have judged or more.

    Over pairs of raters of one item, clustered by both and by the pair of answers: a scorer's
    agreement is its mean with either, and a tie or no difference counts one half. With a majority
    it would agree more than any rater does.

    Raises `UsageError` for several runs of a scorer under one context.
    """
    items: dict[str, list[AnswerRow]] = {}
    for answer in answers:
        items.setdefault(answer.item, []).append(answer)
    tested: dict[str, tuple[Estimate, Estimate, Estimate]] = {}
    for run in runs:
        picks = _picks(items, run)
        couples = [both for item in picks for both in combinations(items[item], 2)]
        if couples:
            first, second = zip(*couples, strict=True)
            a, b = (np.array([SIDES[it.choice] for it in side]) for side in (first, second))
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
