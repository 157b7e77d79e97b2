"""Scores of all N answers to every row: by the same passes that score a benchmark's pairs.

What N answers to a question share is read once; a judge compares every two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from palate.answers.drawing import refuse_draws
from palate.answers.samples import Samples
from palate.answers.scores.combine_passes import gather
from palate.answers.scores.result import SampleScores, ScoreRow, ScoresSummary
from palate.answers.scores.slates import TextRows
from palate.benchmarks import Dataset
from palate.errors import UsageError
from palate.evaluation import (
    BoundScorer,
    Progress,
    Work,
    need_choices,
    need_replies,
    not_applicable,
    refuse,
    spec_of,
)
from palate.records import Scorer, info_of
from palate.runs import VerdictRow


def plan_cells(
    scorers: Sequence[str],
    contexts: Sequence[str],
    pairs: Dataset,
    work: Work,
    command: str = "best-of-n",
) -> list[tuple[str, str]]:
    """Return the cells to score, (scorer, context); those without a meaning are left out.

    Every spec is built, and so checked, before anything is drawn or scored.

    Raises:
        UsageError: where no cell is left, or one is asked for that makes no sense.
    """
    built = [work.context(text) for text in dict.fromkeys(contexts)]
    cells = []
    for context in built:
        refuse_draws(context, context.spec, command)
    for text in dict.fromkeys(scorers):
        scorer = work.scorer(text)
        refuse_draws(scorer, text, command)
        spec = spec_of(scorer, text)
        need_choices(scorer, pairs, spec)
        info = info_of(scorer, spec)
        for context in built:
            if not not_applicable(info, context):
                refuse(info, context, spec)
                cells.append((text, context.spec))
    if not cells:
        raise UsageError(
            f"{command}: no scorer has a meaning under these contexts (add -c profile)"
        )
    return cells


def score_samples(
    scorer: str | Scorer,
    samples: Samples,
    pairs: Dataset,
    context: str,
    work: Work,
    progress: Progress | None = None,
) -> SampleScores:
    """Return the scores of every sample by one scorer under one context.

    What is finished is not computed again: results are kept under the work's root, as those of
    `evaluate` are. A judge's score is the mean of its margins against the row's other answers that
    have one.

    Raises `UsageError` for a scorer that makes no sense under this context, `EndpointError` where
    an endpoint did not answer, and what building and running a scorer raises.
    """
    job = BoundScorer.of(scorer, pairs, context, work, name=getattr(scorer, "spec", None))
    spec, oracle = job.spec, job.context.oracle or getattr(job.scorer, "oracle", False)
    if job.info.pairs_only and samples.n == 1:
        raise UsageError(f"{spec}: a judge compares two answers; draw more than one (-n)")
    if samples.rows != tuple(row.id for row in pairs.rows):
        raise UsageError(f"{samples.policy}: samples of other rows than those of {pairs.name}")
    sampled, name = TextRows(job.rows, samples.texts), f"{spec} {job.context.spec}"
    identity = {"rows": samples.content, "revision": pairs.content_hash}
    computed = job.computed(sampled, SampleScores.kind, progress, identity, name=name)
    with computed as (computation, passes, folder):
        need_replies(spec, passes, "answers")
        scored = _rows(pairs, samples, gather(job, sampled, samples, passes))
        summary = ScoresSummary(
            benchmark=pairs.name,
            scorer=spec,
            context=job.context.spec,
            oracle=oracle,
            models=computation.models,
            fingerprints=computation.fingerprints,
            policy=samples.policy,
            samples=samples.content,
            n_rows=len(scored),
            n_samples=samples.n,
            unscored_reasons=Counter(why for row in scored for why in row.reasons if why),
            notes=job.notes,
        )
        result = SampleScores(summary, scored, folder)
        if folder is not None:
            result.save()
    return result


def _rows(
    pairs: Dataset, samples: Samples, scores: Sequence[Sequence[float | str]]
) -> tuple[ScoreRow, ...]:
    return tuple(
        ScoreRow(
            id=row.id,
            content_hash=row.content,
            question_hash=VerdictRow.hash_of(row.key),
            user=row.user_id,
            sample_hashes=tuple(VerdictRow.hash_of(sample.text) for sample in drawn),
            scores=tuple(None if isinstance(each, str) else each for each in of_row),
            reasons=tuple(each if isinstance(each, str) else None for each in of_row),
        )
        for row, drawn, of_row in zip(pairs.rows, samples.of_row, scores, strict=True)
    )
