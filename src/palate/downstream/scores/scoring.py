"""Scores of all N answers to every row: by the same passes that score a benchmark's pairs.

What N answers to a question share is read once; a judge compares every two.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from palate.benchmarks import Dataset
from palate.contexts import build_context
from palate.downstream.sampling.drawing import refuse_draws
from palate.downstream.sampling.samples import Samples
from palate.downstream.scores.gathering import gather
from palate.downstream.scores.result import SampleScores, ScoreRow, ScoresSummary
from palate.downstream.scores.slates import SampleRows
from palate.errors import EndpointError, UsageError
from palate.evaluation import (
    Computation,
    Options,
    Progress,
    adapt_to,
    make_rows,
    meaningless,
    need_choices,
    refuse,
    shown_by,
    spec_of,
    whose_state,
)
from palate.execution import build_runner
from palate.records import traits_of
from palate.runs import JOURNAL, Identity, Journal, VerdictRow
from palate.scorers import build_scorer


def plan_cells(
    scorers: Sequence[str], contexts: Sequence[str], pairs: Dataset, options: Options
) -> list[tuple[str, str]]:
    """Return the cells to score, (scorer, context); those without a meaning are left out.

    Every spec is built, and so checked, before anything is drawn or scored.

    Raises:
        UsageError: where no cell is left, or one is asked for that makes no sense.
    """
    shown = [build_context(text, options.settings) for text in dict.fromkeys(contexts)]
    found = []
    for context in shown:
        refuse_draws(context, context.spec)
    for text in dict.fromkeys(scorers):
        contestant = build_scorer(text, options.settings)
        refuse_draws(contestant, text)
        spec = spec_of(contestant, text)
        need_choices(contestant, pairs, spec)
        traits = traits_of(contestant, spec)
        for context in shown:
            if not meaningless(traits, context):
                refuse(traits, context, spec)
                found.append((text, context.spec))
    if not found:
        raise UsageError("best-of-n: no scorer has a meaning under these contexts (add -c profile)")
    return found


def score_samples(
    scorer: str,
    samples: Samples,
    pairs: Dataset,
    context: str = "none",
    *,
    root: Path | None = Path("runs"),
    options: Options | None = None,
    progress: Progress | None = None,
) -> SampleScores:
    """Return the scores of every sample by one scorer under one context.

    What is finished is not computed again: results are kept under `root` as those of `evaluate`
    are. A judge's score is the mean of its margins against the row's other answers that have one.

    Raises `UsageError` for a scorer that makes no sense under this context, `EndpointError` where
    an endpoint did not answer, and what building and running a scorer raises.
    """
    options = options or Options()
    settings = options.settings
    contestant = build_scorer(scorer, settings)
    spec = spec_of(contestant, scorer)
    shown = build_context(context, settings)
    adapted = adapt_to(contestant, pairs, spec)
    built_from = scorer if adapted is contestant else None
    contestant, traits = adapted, traits_of(adapted, spec)
    refuse(traits, shown, spec)
    if traits.pairs_only and samples.n == 1:
        raise UsageError(f"{spec}: a judge compares two answers; draw more than one (-n)")
    if samples.rows != tuple(row.id for row in pairs.rows):
        raise UsageError(f"{samples.policy}: samples of other rows than those of {pairs.name}")
    whose = whose_state(contestant, traits, pairs, settings.seed)
    rows = make_rows(pairs, shown, seed=settings.seed, whose=whose)
    sampled = SampleRows(rows, samples)
    work = Computation(contestant, spec, sampled, options, built_from)
    folder = None
    with ExitStack() as stack:
        journal = None
        if root is not None:
            details = work.details[0]
            identity = Identity(
                benchmark=pairs.name, scorer=spec, context=shown.spec,
                rows=samples.content, revision=pairs.content_hash, fingerprints=work.fingerprints,
                protocol=traits.protocol, split=pairs.split, shown_by=shown_by(shown, pairs),
                seed=settings.seed, dtype=details.get("dtype"), device=details.get("device"),
                batch_tokens=settings.batch_tokens,
            )  # fmt: skip
            manifest = work.manifest(SampleScores.kind, identity, name=f"{spec} {shown.spec}")
            folder = manifest.folder(root)
            journal = stack.enter_context(Journal(folder / JOURNAL))
            manifest.write(folder)
        runner = build_runner(options.engine)
        passes = work.run(journal, root, runner, progress or (lambda done, total: None))
        lost = int(sum(one.outages.sum() for one in passes))
        if lost:
            raise EndpointError(
                f"{spec}: {lost} answers were not scored (the endpoint did not answer, or the cost "
                "cap is reached); what came is kept, run the same command again"
            )
        scored = _rows(pairs, samples, gather(work, sampled, samples, passes))
        notes = [note for one in (contestant, shown) for note in getattr(one, "notes", tuple)()]
        summary = ScoresSummary(
            benchmark=pairs.name, scorer=spec, context=shown.spec, oracle=shown.oracle,
            models=work.models, fingerprints=work.fingerprints, policy=samples.policy,
            samples=samples.content, n_rows=len(scored), n_samples=samples.n,
            unscored_reasons=SampleScores.count(scored), notes=(*traits.notes, *notes),
        )  # fmt: skip
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
            question_hash=VerdictRow.hash_of(row.text),
            user=row.user_id,
            sample_hashes=tuple(VerdictRow.hash_of(sample.text) for sample in drawn),
            scores=tuple(None if isinstance(each, str) else each for each in of_row),
            reasons=tuple(each if isinstance(each, str) else None for each in of_row),
        )
        for row, drawn, of_row in zip(pairs.rows, samples.of_row, scores, strict=True)
    )
