"""From the lines of a run's passes to one verdict per row."""

from __future__ import annotations

from collections.abc import Sequence

from palate.evaluation.rows import Row
from palate.records import Judgement, Outcome, Scores, Traits, Verdict, margin_of
from palate.records.protocols import Judge, Scorer
from palate.runs import Line, VerdictRow
from palate.seeding import digest


def verdict_row(
    contestant: Scorer | Judge,
    traits: Traits,
    row: Row,
    lines: Sequence[Line],
    partner: str | None,
) -> VerdictRow:
    """Judge one pair from what each of the contestant's computations gave for it.

    `partner` is the id of the row it makes a couple with, under the mirror law; else None.
    """
    verdict = _verdict(contestant, traits, row, lines)
    pair = row.pair
    return VerdictRow(
        id=pair.id,
        content=digest(pair.question, pair.chosen, pair.rejected)[:16],
        user=pair.user_id,
        subset=pair.subset,
        mirror_of=partner,
        outcome=verdict.outcome,
        margin=verdict.margin,
        orders=verdict.orders,
        chosen_first=row.chosen_position == 0,
        reason=verdict.reason,
        own_words=row.shown.own_words,
        lengths=(len(pair.chosen), len(pair.rejected)),
    )


def _verdict(
    contestant: Scorer | Judge, traits: Traits, row: Row, lines: Sequence[Line]
) -> Verdict:
    if traits.needs_shown and not (row.slate.shown and lines[0].parts):
        return Verdict(outcome=Outcome.UNSCORED, reason="nothing shown")
    if isinstance(contestant, Judge):
        verdict = _judgement(lines[0]).verdict(row.chosen_position)
    else:
        parts = [Scores(values=line.values, reasons=line.reasons) for line in lines]
        combine = getattr(contestant, "combine", None)
        scores = combine(parts) if combine is not None else parts[0]
        verdict = _from_scores(scores, row.chosen_position)
    if traits.protocol == "paper" and verdict.outcome is Outcome.TIE:
        return verdict.model_copy(update={"outcome": Outcome.REJECTED})
    return verdict


def _judgement(line: Line) -> Judgement:
    read = [value for value in line.values if value is not None]
    whole = len(read) == len(line.values)
    return Judgement(
        margin=sum(read) / len(read) if whole else None,
        orders=line.values,
        reason=line.reasons[0] if line.reasons else None,
    )


def _from_scores(scores: Scores, chosen_position: int) -> Verdict:
    first, second = scores.values
    if first is None or second is None:
        reason = scores.reason(0) or scores.reason(1) or "no score"
        return Verdict(outcome=Outcome.UNSCORED, reason=reason)
    return Judgement(margin=margin_of(first, second)).verdict(chosen_position)
