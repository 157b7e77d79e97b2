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
from palate.study.records import AnswerRow

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
    pairs, checks = counted(answers), [row for row in answers if row.kind == "check"]
    figures: list[Figure] = []
    for context in sorted({of for row in pairs for of in row.contexts or ("",)}):
        there = [row for row in pairs if context in (row.contexts or ("",))]
        figures += _agree("choices", context, [(SIDES[it.choice], it.item, it) for it in there])
    for name in dict.fromkeys(name for row in pairs for name in row.ratings):
        there = [row for row in pairs if name in row.ratings]
        rated = [(it.ratings[name][k], (it.item, k), it) for it in there for k in (0, 1)]
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
