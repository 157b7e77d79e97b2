"""The figures of some raters: agreement on choices and ratings, and equal quality."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from palate.metrics import Clusters, clustered_mean, rater_agreement
from palate.metrics.agreement import Measure
from palate.runs import Run
from palate.study.agreement.quality import differences, equal_quality
from palate.study.agreement.result import Figure, Group, Panel
from palate.study.agreement.scorers import SIDES, beside_people
from palate.study.records import DIMENSIONS, AnswerRow

MEASURES: dict[Group, tuple[Measure, ...]] = {
    "choices": ("percent", "nominal"),
    "ratings": ("percent", "ordinal", "interval"),
}
Value = tuple[float, Hashable, AnswerRow]
"""A value, what it is of, and in whose answer."""


def counted(answers: Iterable[AnswerRow]) -> list[AnswerRow]:
    """Return the answers that say something of an item: no checks, repeats or skipped ones."""
    return [a for a in answers if a.kind == "pair" and not a.again and a.choice in SIDES]


def panel(answers: Sequence[AnswerRow], runs: Sequence[Run], margin: float) -> Panel:
    """Return the figures of these answers, all of raters who count."""
    pairs = counted(answers)
    values: dict[tuple[Group, str], list[Value]] = {}
    for answer in pairs:
        for context in answer.contexts or ("",):
            side = (SIDES[answer.choice], answer.item, answer)
            values.setdefault(("choices", context), []).append(side)
        for name, scores in answer.ratings.items():
            rated = [(score, (answer.item, k), answer) for k, score in enumerate(scores)]
            values.setdefault(("ratings", name), []).extend(rated)
    figures = [figure for (group, of), told in values.items() for figure in _agree(group, of, told)]
    for of in (name for name in DIMENSIONS if ("ratings", name) in values):
        rated_apart = (differences(answers, of, "pair"), differences(answers, of, "check"))
        figures += equal_quality(*rated_apart, of, margin)
    figures += beside_people(pairs, runs)
    return Panel(
        raters=len({answer.rater for answer in pairs}),
        items=len({answer.item for answer in pairs}),
        answers=len(pairs),
        figures=tuple(figures),
    )


def _agree(group: Group, of: str, told: Sequence[Value]) -> Iterator[Figure]:
    values, units, answers = zip(*told, strict=True)
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
