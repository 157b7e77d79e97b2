"""audit(benchmark) → every check of its rows, what the filters see, and what blind scorers tell."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from palate.benchmarks import Dataset, dataset_of, need_pairs
from palate.comparison import plan_grid, run_grid
from palate.construction.checks.gap import Gaps
from palate.construction.checks.result import (
    Audit,
    AuditRow,
    AuditSummary,
    CheckCount,
    GapLimit,
    Sight,
)
from palate.construction.checks.row_check import CheckOptions, CheckResult, check_rows
from palate.construction.checks.sight import LEAST, adherence_sight, blind_sights, rubric_sight
from palate.construction.checks.standing import standings, without_user
from palate.construction.own_text.pipeline import hash_of_file
from palate.embeddings import build_features
from palate.errors import UsageError
from palate.evaluation import Start, Work
from palate.metrics.estimates import ROUNDING
from palate.quality import build_qualities
from palate.records import Settings, info_of
from palate.runs import Manifest
from palate.session import Session
from palate.specs import Spec

GAP = CheckOptions().gap


def audit(
    benchmark: str | Path | Dataset,
    *,
    adherence: str | None = None,
    gap: str = GAP,
    blind: str | None = None,
    apart: float | None = None,
    against: Sequence[Path] = (),
    scorers: Sequence[str] = (),
    embedder: str | None = None,
    root: Path | str | None = "runs",
    session: Session | None = None,
    settings: Settings | None = None,
    retry_unscored: bool = False,
    start: Start | None = None,
) -> Audit:
    """Check whether a benchmark's pairs differ by their users' taste alone.

    `adherence` is a measure of quality, and `gap` what a gap must be above; `blind` a scorer that
    is shown nothing, and `apart` how many of its points make one answer better; `against` are files
    that must share no text. The finding of each of `scorers` is added. A filter that is not shown
    to see is no reason for any row. With a `root` the result is kept at
    `root/<benchmark>/audit/<name>-<8 hex>`, and runs and ratings are not computed again.

    Raises:
        UsageError: for options that cannot be read or do not fit.
        BenchmarkError: for rows that are no pairs, or lack what a measure reads.
        EndpointError: where an endpoint did not answer; what came is kept.

    >>> found = audit("tasting", root=None)
    >>> found.clean, [check.name for check in found.summary.checks if check.n_failed]
    (True, [])
    """
    work = Work.of(session, settings, root, retry_unscored=retry_unscored, start=start)
    if adherence is None and gap != GAP:
        raise UsageError(f"--gap {gap}: a gap is of a measure; name one by --adherence")
    if blind is None and apart is not None:
        raise UsageError(f"--apart {apart:g}: it is of a scorer; name one by --blind")
    pairs = dataset_of(benchmark, work.settings.seed)
    need_pairs(pairs.rows, pairs.name)
    options = CheckOptions(adherence, gap, blind, apart, against)
    # What cannot be built is refused before anything is computed.
    prints = _fingerprints(options, embedder, work)
    cells = plan_grid([pairs], scorers, None, work) if scorers else []
    checks = check_rows(pairs, options, work)
    gaps = next((check.gaps for check in checks if check.gaps), None)
    grid = run_grid(cells, work)
    sights: list[Sight] = []
    if blind is not None:
        sights += blind_sights(pairs, blind, work)
    if adherence is not None and gaps is not None:
        fits = rubric_sight(pairs, adherence, work)
        sights += [adherence_sight(gaps), *([fits] if fits else [])]
    unseen = _unseen(sights)
    rows = _rows(pairs, checks, unseen)
    summary = AuditSummary(
        benchmark=pairs.name,
        rows=len(rows),
        couples=len(pairs.couples),
        mirrored=pairs.mirrored,
        without_reason=sum(not row.reasons for row in rows),
        kept=sum(row.kept for row in rows),
        checks=tuple(CheckCount.of(check, check.name not in unseen) for check in checks),
        adherence=adherence,
        blind=blind,
        gaps=_limits(gaps),
        sights=tuple(sights),
        unseen=unseen,
        without_user=without_user(pairs, embedder, work),
        standings=standings(grid),
    )
    identity = {
        "benchmark": pairs.name,
        "name": " ".join(Spec.parse(s).kind for s in (adherence, blind) if s) or "rows",
        "rows": pairs.content_hash,
        "revision": pairs.revision,
        "split": pairs.split,
        "mirrors": pairs.mirrors,
        "limit": pairs.limited,
        "columns": dict(pairs.columns),
        "seed": work.settings.seed,
        "gap": gap,
        "apart": apart,
        "fingerprints": prints,
        "scorers": [[*run.cell, *run.fingerprints] for run in grid.runs],
        **({"order": "as in file"} if pairs.order_as_in_file else {}),
    }
    manifest = Manifest.of(Audit.kind, identity, inputs={str(p): hash_of_file(p) for p in against})
    result = Audit(summary, rows, None if work.root is None else manifest.renew(work.root))
    if result.folder is not None:
        result.save()
    return result


def _unseen(sights: Sequence[Sight]) -> dict[str, str]:
    """Return the filters that no sight shows to see, and why; of twins any is enough."""
    why = {}
    for name, what in (("gap", "a chosen answer's own rubric"), ("blind", "an answer")):
        tried = [sight for sight in sights if sight.filter == name]
        if tried and not any(sight.finding == "shown" for sight in tried):
            n = max(sight.n for sight in tried)
            lost = {"gap": "a third user's", "blind": "a twin"}[name]
            few = f"{n} rows can be tried, and {LEAST} are needed"
            why[name] = few if n < LEAST else f"it is not shown to prefer {what} to {lost}"
    return why


def _rows(
    pairs: Dataset, checks: Sequence[CheckResult], unseen: Collection[str]
) -> tuple[AuditRow, ...]:
    details = [
        {check.name: text for check in checks if (text := check.details[k]) is not None}
        for k in range(len(pairs.rows))
    ]
    reasons = [tuple(name for name in of_row if name not in unseen) for of_row in details]
    return tuple(
        AuditRow(
            id=pair.id,
            reasons=reasons[k],
            details=details[k],
            kept=not reasons[k] and not (mirror >= 0 and reasons[mirror]),
        )
        for k, (pair, mirror) in enumerate(zip(pairs.rows, pairs.mirror_rows, strict=True))
    )


def _limits(gaps: Gaps | None) -> tuple[GapLimit, ...]:
    if gaps is None:
        return ()
    sizes = np.array([len(unit) for unit in gaps.units])
    limits = []
    for size, limit in sorted(gaps.thresholds.items(), reverse=True):
        of_size = gaps.gaps[sizes == size]
        mean = None if np.isnan(of_size).all() else float(np.nanmean(of_size))
        above = 0 if limit is None else int(np.sum(of_size > limit + ROUNDING))
        limits.append(
            GapLimit(
                of="couples" if size == 2 else "rows",
                n=len(of_size),
                n_above=above,
                limit=limit,
                n_null=len(gaps.null[size]),
                mean=mean,
            )
        )
    return tuple(limits)


def _fingerprints(options: CheckOptions, embedder: str | None, work: Work) -> dict[str, str]:
    prints = {}
    if options.adherence is not None:
        (measure,) = build_qualities([options.adherence], work.session, work.settings)
        prints[measure.spec] = measure.fingerprint
    if options.blind is not None:
        spec = str(options.blind)
        prints[spec] = info_of(work.scorer(options.blind), spec).fingerprint
    if embedder is not None:
        prints[embedder] = build_features([embedder], work.session, work.settings).fingerprint
    return prints
