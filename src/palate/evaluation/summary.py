"""From verdicts to a summary: the statistics of docs/statistics.md, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.evaluation.job import BoundScorer, combined, judgements, unscored_reason
from palate.execution import Results
from palate.metrics import Clusters, Estimate
from palate.records import (
    Judgement,
    Outcome,
    PreferencePair,
    ScorerInfo,
    Scores,
    Verdict,
    margin_of,
    normal_form,
)
from palate.runs import (
    MemberReport,
    Members,
    RatedPair,
    ReportedEstimate,
    Summary,
    VerdictRow,
    Verdicts,
)
from palate.scorers import Company
from palate.seeding import digest

COPIED = ("id", "subset", "category", "traits", "date", "alike")
"""What a verdict's row says of its pair in the pair's words."""


def verdict_rows(
    job: BoundScorer, passes: Sequence[Results], computed: Sequence[int] | None = None
) -> Iterator[VerdictRow]:
    """Yield each pair's verdict, judged from what each of the scorer's computations gave.

    Where several strangers were drawn for a pair, their verdicts are averaged; scores never are.
    `computed` are the pairs that the passes hold, where these are not all.
    """
    draws = job.rows.draws
    for number, pair in enumerate(range(len(job.pairs.pairs)) if computed is None else computed):
        places = enumerate(range(number * draws, (number + 1) * draws), pair * draws)
        drawn = [_judged(job, row, passes, place) for row, place in places]
        verdict, scores = drawn[0]
        if draws > 1:
            verdict, scores = mean_verdict([verdict for verdict, _ in drawn]), None
        yield row_of(job, pair, verdict, scores)


def undecided_rows(job: BoundScorer, passes: Sequence[Results]) -> Iterator[VerdictRow]:
    """Yield undecided pairs without a verdict: their ratings, and scores where there are passes."""
    for at in range(len(job.rows.questions)):
        scores = _judged(job, at, passes, at)[1] if passes else None
        verdict = Verdict(outcome=Outcome.UNSCORED, reason="undecided")
        yield row_of(job, at, verdict, scores, coupled=False)


def mean_verdict(drawn: Sequence[Verdict]) -> Verdict:
    """Return the verdict of a row on which several were passed: the mean of their values.

    A verdict counts 1, ½ or 0, or as the share that it holds; unscored ones are left out, and where
    all are, the first gives the reason. There is no margin.

    >>> mean_verdict([Verdict(outcome=o) for o in ("chosen", "tie", "unscored")]).share
    0.75
    """
    values = [verdict.value for verdict in drawn if verdict.outcome is not Outcome.UNSCORED]
    return Verdict.of_share(sum(values) / len(values)) if values else drawn[0]


def row_of(
    job: BoundScorer, at: int, verdict: Verdict, scores: Scores | None, *, coupled: bool = True
) -> VerdictRow:
    """Return what a run keeps of a pair and the verdict on it."""
    pair, first = job.pairs.pairs[at], at * job.rows.draws
    position = job.rows.chosen_position(first)
    mirror = job.pairs.mirror_rows[at] if coupled else -1
    return VerdictRow(
        **{name: getattr(pair, name) for name in COPIED},
        content_hash=pair.content,
        question_hash=VerdictRow.hash_of(pair.normal_key),
        response_hashes=(
            VerdictRow.hash_of(normal_form(pair.chosen)),
            VerdictRow.hash_of(normal_form(pair.rejected)),
        ),
        user=job.rows.user_of(first),
        mirror_of=job.pairs.pairs[mirror].id if mirror >= 0 else None,
        in_two_forms=(mirror in job.pairs.in_two_forms) or None,
        chosen_first=position == 0,
        own_words=int(job.rows.own_words[first]),
        lengths=(len(pair.chosen), len(pair.rejected)),
        ratings=_rated(pair, position, scores),
        **dict(verdict),
    )


def _judged(
    job: BoundScorer, row: int, passes: Sequence[Results], place: int
) -> tuple[Verdict, Scores | None]:
    # `place` is where the passes hold the row.
    info, position = job.info, job.rows.chosen_position(row)
    if reason := unscored_reason(job, row, passes, place):
        return Verdict(outcome=Outcome.UNSCORED, reason=reason), None
    if job.judges:
        (judgement,) = judgements(job, passes, place)
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


def members_of(job: BoundScorer, passes: Sequence[Results]) -> Members | None:
    """Return each member as a run of its own would, and their α; None where a file names none."""
    if not isinstance(job.scorer, Company):
        return None
    members = job.scorer.members
    every = [Verdicts(verdict_rows(*alone)).by_id() for alone in job.alone(passes)]
    n, questions = len(members), np.tile(every[0].question_codes, len(members))
    choices = np.sign(np.concatenate([verdicts.values for verdicts in every]) - 0.5)
    agreed = metrics.rater_agreement(
        choices,
        np.tile(np.arange(len(every[0])), n),
        Clusters.of(np.repeat(np.arange(n), len(every[0])), questions=questions),
        both_orders=True,
    )
    weights = getattr(job.scorer, "weights", (None,) * n)
    scales = getattr(job.scorer, "scales", weights)
    return Members(
        by=getattr(job.scorer, "by", ""),
        members=tuple(
            MemberReport(
                name=member.name,
                scorer=member.spec,
                accuracy=ReportedEstimate.of(headline(verdicts)),
                weight=None if weight is None else ReportedEstimate.of(weight),
                scale=scale,
            )
            for member, verdicts, weight, scale in zip(members, every, weights, scales, strict=True)
        ),
        agreement=ReportedEstimate.of(agreed).called("member"),
        learnt=getattr(job.scorer, "learnt", None),
    )


def _rated(pair: PreferencePair, chosen_position: int, scores: Scores | None) -> RatedPair | None:
    if pair.gold.ratings == (None, None):
        return None
    first, second = scores.values if scores is not None else (None, None)
    return RatedPair(
        ratings=pair.gold.ratings,
        scale=pair.gold.rating_scale,
        scores=(first, second) if chosen_position == 0 else (second, first),
        response_hashes=(digest(pair.key, pair.chosen)[:16], digest(pair.key, pair.rejected)[:16]),
    )


def _by_protocol(verdict: Verdict, info: ScorerInfo) -> Verdict:
    if info.protocol == "paper" and verdict.outcome is Outcome.TIE:
        return verdict.model_copy(update={"outcome": Outcome.REJECTED})
    return verdict


def summarise(
    verdicts: Verdicts,
    *,
    log_odds: bool = False,
    seed: int = 0,
    scales: NDArray[np.float64] | None = None,
    **facts: Any,
) -> Summary:
    """Return the summary of one run, with these facts of it.

    `scales` holds, for a scorer with a state per user, the root mean square margin of each row's
    state over one common set of pairs; shift is computed on margins divided by it.
    """
    # By id: sums of floats depend on their order, and a figure must not depend on the file's.
    order = verdicts.order_by_id()
    verdicts, scales = verdicts.take(order), None if scales is None else scales[order]
    values, mirrored = verdicts.values, verdicts.mirrored
    counts = metrics.outcome_counts(values)
    accuracy = headline(verdicts)
    if not mirrored:
        clusters, (chosen, rejected) = verdicts.clusters, verdicts.lengths.T
        controlled = metrics.length_controlled(values, chosen, rejected, clusters)
        facts["macro_accuracy"] = ReportedEstimate.of(metrics.macro_mean(values, clusters))
        facts["worst_decile"] = metrics.worst_decile(values, verdicts.user_codes)
        facts["length_controlled"] = ReportedEstimate.of(controlled)
    return Summary(
        n_pairs=len(verdicts),
        n_users=verdicts.clusters.n_users,
        accuracy=ReportedEstimate.of(accuracy),
        strict_accuracy=metrics.strict_accuracy(values),
        bounds=metrics.accuracy_bounds(values),
        ties=counts.ties,
        unscored=counts.unscored,
        unscored_reasons=verdicts.unscored_reasons,
        mirrored_accuracy=ReportedEstimate.of(accuracy) if mirrored else None,
        concordance=ReportedEstimate.of(concordance(verdicts, scales)) if mirrored else None,
        subsets={name: ReportedEstimate.of(headline(part)) for name, part in verdicts.of_subsets()},
        clustered_by=_clustered_by(verdicts),
        minimum_detectable_effect=metrics.minimum_detectable_effect(accuracy.se, accuracy.df),
        position_consistency=_consistency(verdicts),
        calibration=_calibration(verdicts, seed) if log_odds else None,
        **facts,
    )


def concordance(verdicts: Verdicts, scales: NDArray[np.float64] | None = None) -> Estimate:
    """Share of couples whose margin for a response is higher under the user who chose it."""
    margins = verdicts.margins if scales is None else verdicts.margins / scales
    a, b = verdicts.couples.T
    # Row B's margin is of B's choice over A's; A's choice over B's under user B is its negative.
    values = metrics.concordance_values(margins[a], -margins[b])
    return metrics.clustered_mean(values, verdicts.couple_clusters)


def headline(verdicts: Verdicts) -> Estimate:
    """Accuracy over rows; where all rows stand in mirrored couples, over couples."""
    units = verdicts.units()
    return metrics.accuracy(units.values(verdicts.values), units.clusters)


def _calibration(verdicts: Verdicts, seed: int) -> dict[str, Any] | None:
    found = metrics.calibration(verdicts.margins, verdicts.users, seed=seed)  # dealt out by name
    if found.before is None:
        return None
    return asdict(found) | {"temperatures": [*found.temperatures]}  # as a file gives it back


def _consistency(verdicts: Verdicts) -> dict[str, Any] | None:
    orders, first = verdicts.orders, verdicts.chosen_first
    read = ~np.isnan(orders).any(axis=1)
    if not read.any():
        return None
    # Orders are told of the chosen response; position asks of the one that was shown first.
    signs = np.where(first[read], 1.0, -1.0)[:, None]
    votes = (np.sign(orders[read] * signs) + 1) / 2
    return asdict(metrics.position_consistency(votes[:, 0], votes[:, 1]))


def _clustered_by(verdicts: Verdicts) -> str:
    units = verdicts.units()
    return units.clusters.take(~np.isnan(units.values(verdicts.values))).by
