"""The figures of some raters: agreement on choices and ratings, and equal quality."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from palate.metrics import Clusters, clustered_mean, rater_agreement
from palate.metrics.agreement import Measure
from palate.runs import ReportedEstimate, Run
from palate.study.agreement.quality import differences, equal_quality
from palate.study.agreement.result import Panel, Reliability, Scale, reported
from palate.study.agreement.scorers import SIDES, beside_people
from palate.study.records import DIMENSIONS, AnswerRow

Value = tuple[float, Hashable, AnswerRow]


def counted(answers: Iterable[AnswerRow]) -> list[AnswerRow]:
    """Return the answers that say something of an item: no checks, repeats or skipped ones."""
    return [a for a in answers if a.kind == "pair" and not a.again and a.choice in SIDES]


def panel(answers: Sequence[AnswerRow], runs: Sequence[Run], margin: float) -> Panel:
    """Return the figures of these answers, all of raters who count."""
    pairs = counted(answers)
    chosen: dict[str, list[Value]] = {}
    rated: dict[str, list[Value]] = {}
    for answer in pairs:
        for context in answer.contexts or ("",):
            chosen.setdefault(context, []).append((SIDES[answer.choice], answer.item, answer))
        for name, scores in answer.ratings.items():
            for k, score in enumerate(scores):
                rated.setdefault(name, []).append((score, (answer.item, k), answer))
    dimensions = [name for name in DIMENSIONS if name in rated]
    return Panel(
        raters=len({answer.rater for answer in pairs}),
        answers=len(pairs),
        reliability=(
            *(_reliability(of, chosen[of], ("nominal",)) for of in sorted(chosen)),
            *(_reliability(of, rated[of], ("ordinal", "interval")) for of in dimensions),
        ),
        quality=tuple(
            equal_quality(
                differences(answers, of, "pair"), differences(answers, of, "check"), of, margin
            )
            for of in dimensions
        ),
        runs=tuple(beside_people(pairs, runs)),
    )


def _reliability(of: str, told: Sequence[Value], scales: Sequence[Scale]) -> Reliability:
    """Agreement of values, each with what it is of and in whose answer; of choices if nominal."""
    values, units, answers = zip(*told, strict=True)
    rows = Clusters.of([a.rater for a in answers], questions=[a.pair for a in answers])
    choices, gold = "nominal" in scales, None
    if choices:
        sides = [SIDES.get(answer.gold, math.nan) for answer in answers]
        gold = reported(clustered_mean((1 + np.multiply(values, sides)) / 2, rows))

    def figure(measure: Measure) -> ReportedEstimate:
        return reported(rater_agreement(values, units, rows, measure=measure, both_orders=choices))

    return Reliability(
        of=of,
        answers=len({(answer.rater, answer.item) for answer in answers}),
        percent=figure("percent"),
        alpha={scale: figure(scale) for scale in scales},
        gold=gold,
    )
