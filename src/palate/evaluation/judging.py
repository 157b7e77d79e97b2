"""From what a run's passes gave for a row to the verdict on its pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from palate.evaluation.rows import Rows
from palate.execution import Result, Results
from palate.records import (
    Judge,
    Judgement,
    Outcome,
    PreferencePair,
    Scorer,
    Scores,
    Traits,
    Verdict,
    margin_of,
)
from palate.runs import Rated, VerdictRow
from palate.seeding import digest

Ints = NDArray[np.int32]


Combine = Callable[[Sequence[Scores]], Scores]


def verdict_rows(
    contestant: Scorer | Judge, traits: Traits, rows: Rows, passes: Sequence[Results], mates: Ints
) -> Iterator[VerdictRow]:
    """Yield each row's verdict, judged from what each of the contestant's computations gave for it.

    `mates` holds the row that each makes a couple with, under the mirror law; else -1.
    """
    judged, combine = isinstance(contestant, Judge), getattr(contestant, "combine", None)
    for row in range(len(rows)):
        mate = int(mates[row])
        partner = rows.id(mate) if mate >= 0 else None
        results = [found[row] for found in passes]
        yield _row(judged, combine, traits, rows, row, results, partner)


def _row(
    judged: bool,
    combine: Combine | None,
    traits: Traits,
    rows: Rows,
    row: int,
    results: Sequence[Result],
    partner: str | None,
) -> VerdictRow:
    pair, position = rows.pairs[row], rows.chosen_position(row)
    scores = None
    if traits.needs_shown and not (rows.parts[row] and results[0].parts):
        verdict = Verdict(outcome=Outcome.UNSCORED, reason="nothing shown")
    elif judged:
        verdict = _by_protocol(_judgement(results[0]).verdict(position), traits)
    else:
        parts = [Scores(values=result.values, reasons=result.reasons) for result in results]
        scores = combine(parts) if combine is not None else parts[0]
        verdict = _by_protocol(_from_scores(scores, position), traits)
    return VerdictRow(
        id=pair.id,
        content=pair.asked,
        question=VerdictRow.hash_of(pair.question),
        responses=(VerdictRow.hash_of(pair.chosen), VerdictRow.hash_of(pair.rejected)),
        user=pair.user_id,
        subset=pair.subset,
        mirror_of=partner,
        outcome=verdict.outcome,
        margin=verdict.margin,
        orders=verdict.orders,
        chosen_first=position == 0,
        reason=verdict.reason,
        own_words=int(rows.own_words[row]),
        lengths=(len(pair.chosen), len(pair.rejected)),
        category=pair.category,
        traits=pair.traits,
        rated=_rated(pair, position, scores),
    )


def _rated(pair: PreferencePair, chosen_position: int, scores: Scores | None) -> Rated | None:
    if pair.chosen_rating is None and pair.rejected_rating is None:
        return None
    first, second = scores.values if scores is not None else (None, None)
    return Rated(
        ratings=(pair.chosen_rating, pair.rejected_rating),
        scale=pair.rating_scale,
        scores=(first, second) if chosen_position == 0 else (second, first),
        responses=(
            digest(pair.question, pair.chosen)[:16],
            digest(pair.question, pair.rejected)[:16],
        ),
    )


def _by_protocol(verdict: Verdict, traits: Traits) -> Verdict:
    if traits.protocol == "paper" and verdict.outcome is Outcome.TIE:
        return verdict.model_copy(update={"outcome": Outcome.REJECTED})
    return verdict


def _judgement(result: Result) -> Judgement:
    read = [value for value in result.values if value is not None]
    whole = len(read) == len(result.values)
    return Judgement(
        margin=sum(read) / len(read) if whole else None,
        orders=result.values,
        reason=result.reasons[0] if result.reasons else None,
    )


def _from_scores(scores: Scores, chosen_position: int) -> Verdict:
    first, second = scores.values
    if first is None or second is None:
        reason = scores.reason(0) or scores.reason(1) or "no score"
        return Verdict(outcome=Outcome.UNSCORED, reason=reason)
    return Judgement(margin=margin_of(first, second)).verdict(chosen_position)
