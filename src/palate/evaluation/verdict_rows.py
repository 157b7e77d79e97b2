"""From what a run's passes gave for a row to the verdict on its pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

import numpy as np

from palate.errors import EndpointError
from palate.evaluation.bound_scorer import BoundScorer
from palate.execution import Results
from palate.records import (
    NO_STRANGER,
    Judgement,
    Outcome,
    PreferencePair,
    ScorerInfo,
    Scores,
    Verdict,
    margin_of,
)
from palate.runs import RatedPair, VerdictRow
from palate.seeding import digest

Combine = Callable[[Sequence[Scores]], Scores]


def verdict_rows(
    job: BoundScorer,
    passes: Sequence[Results],
    computed: Sequence[int] | None = None,
) -> Iterator[VerdictRow]:
    """Yield each pair's verdict, judged from what each of the scorer's computations gave.

    Where several strangers were drawn for a pair, their verdicts are averaged; scores never are.
    `computed` are the pairs that the passes hold, where these are not all.
    """
    pairs, rows = job.pairs.pairs, job.rows
    for number, pair in enumerate(range(len(pairs)) if computed is None else computed):
        mirror_row, first = job.pairs.mirror_rows[pair], pair * rows.draws
        places = range(number * rows.draws, (number + 1) * rows.draws)
        drawn = [_judged(job, first + k, passes, place) for k, place in enumerate(places)]
        verdict, scores = drawn[0]
        if rows.draws > 1:
            verdict, scores = mean_verdict([each for each, _ in drawn]), None
        mirror_of = pairs[mirror_row].id if mirror_row >= 0 else None
        yield row_of(job, pair, verdict, scores, mirror_of)


def undecided_rows(job: BoundScorer, passes: Sequence[Results]) -> Iterator[VerdictRow]:
    """Yield the ratings and scores of each undecided pair: without a verdict, for none is right.

    Without scores where `passes` is empty.
    """
    for at in range(len(job.rows.questions)):
        scores = _judged(job, at, passes, at)[1] if passes else None
        verdict = Verdict(outcome=Outcome.UNSCORED, reason="undecided")
        yield row_of(job, at, verdict, scores, None)


def mean_verdict(drawn: Sequence[Verdict]) -> Verdict:
    """Return the verdict of a row on which several were passed: the mean of their values.

    A verdict counts 1, ½ or 0, or as the share that it holds; unscored ones are left out, and where
    all are, the first gives the reason. There is no margin.

    >>> mean_verdict([Verdict(outcome=o) for o in ("chosen", "tie", "unscored")]).share
    0.75
    """
    values = [each.value for each in drawn if each.outcome is not Outcome.UNSCORED]
    return Verdict.of_share(sum(values) / len(values)) if values else drawn[0]


def row_of(
    job: BoundScorer, at: int, verdict: Verdict, scores: Scores | None, mirror_of: str | None
) -> VerdictRow:
    """Return what a run keeps of a pair and the verdict on it."""
    pair, first = job.pairs.pairs[at], at * job.rows.draws
    position = job.rows.chosen_position(first)
    return VerdictRow(
        id=pair.id,
        content_hash=pair.content,
        question_hash=VerdictRow.hash_of(pair.key),
        response_hashes=(VerdictRow.hash_of(pair.chosen), VerdictRow.hash_of(pair.rejected)),
        user=pair.user_id,
        subset=pair.subset,
        mirror_of=mirror_of,
        outcome=verdict.outcome,
        margin=verdict.margin,
        share=verdict.share,
        orders=verdict.orders,
        chosen_first=position == 0,
        reason=verdict.reason,
        own_words=int(job.rows.own_words[first]),
        lengths=(len(pair.chosen), len(pair.rejected)),
        category=pair.category,
        traits=pair.traits,
        date=pair.date,
        ratings=_rated(pair, position, scores),
    )


def _judged(
    job: BoundScorer, row: int, passes: Sequence[Results], place: int
) -> tuple[Verdict, Scores | None]:
    # `place` is where the passes hold the row.
    info, position = job.info, job.rows.chosen_position(row)
    if reason := void_reason(job, row, passes, place):
        return Verdict(outcome=Outcome.UNSCORED, reason=reason), None
    if job.judges:
        (judgement,) = passes[0].judgements(place)
        verdict = judgement.verdict(position)
        if info.votes and verdict.margin is not None:
            return Verdict.of_share((1 + verdict.margin) / 2), None
        return _by_protocol(verdict, info), None
    scores = combined(job, passes, place)
    first, second = scores.values
    if first is None or second is None:
        reason = scores.reason(0) or scores.reason(1) or "no score"
        return Verdict(outcome=Outcome.UNSCORED, reason=reason), scores
    verdict = Judgement(margin=margin_of(first, second)).verdict(position)
    return _by_protocol(verdict, info), scores


def need_replies(spec: str, passes: Sequence[Results], what: str) -> None:
    """Raise `EndpointError` where the outside world failed."""
    lost = int(np.logical_or.reduce([results.outages for results in passes]).sum())
    if lost:
        raise EndpointError(
            f"{spec}: {lost} {what} were not scored (the endpoint did not answer, or the cost cap "
            "is reached); what came is kept, run the same command again"
        )


def void_reason(job: BoundScorer, row: int, passes: Sequence[Results], place: int) -> str | None:
    """Return why a row has no score, whatever was computed; `place` is where the passes hold it."""
    if job.rows.no_stranger[row]:
        return NO_STRANGER
    shown = job.rows.parts[row] and passes[0].parts_of(place)
    return "nothing shown" if job.info.needs_shown and not shown else None


def combined(job: BoundScorer, passes: Sequence[Results], place: int) -> Scores:
    """Return the scores of a row, made of what each of the scorer's computations gave."""
    combine: Combine = getattr(job.scorer, "combine", itemgetter(0))
    return combine([results.scores(place) for results in passes])


def _rated(pair: PreferencePair, chosen_position: int, scores: Scores | None) -> RatedPair | None:
    if pair.gold.ratings == (None, None):
        return None
    first, second = scores.values if scores is not None else (None, None)
    return RatedPair(
        ratings=pair.gold.ratings,
        scale=pair.gold.rating_scale,
        scores=(first, second) if chosen_position == 0 else (second, first),
        response_hashes=(
            digest(pair.key, pair.chosen)[:16],
            digest(pair.key, pair.rejected)[:16],
        ),
    )


def _by_protocol(verdict: Verdict, info: ScorerInfo) -> Verdict:
    if info.protocol == "paper" and verdict.outcome is Outcome.TIE:
        return verdict.model_copy(update={"outcome": Outcome.REJECTED})
    return verdict
