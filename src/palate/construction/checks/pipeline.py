"""audit(benchmark) → every check of its rows, what the filters see, and what blind scorers tell."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from palate.benchmarks import Dataset, dataset_of, need_pairs
from palate.comparison import plan_grid, run_grid
from palate.construction.checks.gap import Gaps
from palate.construction.checks.result import Audit, AuditRow, AuditSummary, CheckCount, GapLimit
from palate.construction.checks.row_check import CheckOptions, CheckResult, check_rows
from palate.construction.checks.shared_words import hashes_of
from palate.construction.checks.sight import adherence_sight, blind_sights, rubric_sight
from palate.construction.checks.standing import standings, without_user
from palate.embeddings import build_features
from palate.errors import UsageError
from palate.evaluation import Start, Work
from palate.metrics.estimates import ROUNDING
from palate.quality import build_quality
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

    >>> audited = audit("tasting", root=None)
    >>> audited.clean, [check.name for check in audited.summary.checks if check.n_failed]
    (True, [])
    """
    work = Work.of(session, settings, root, retry_unscored=retry_unscored, start=start)
    if adherence is None and gap != GAP:
        raise UsageError(f"--gap {gap}: a gap is of a measure; name one by --adherence")
    if blind is None and apart is not None:
        raise UsageError(f"--apart {apart:g}: it is of a scorer; name one by --blind")
    pairs = dataset_of(benchmark, work.settings.seed)
    need_pairs(pairs.rows, pairs.name)
    # What cannot be built is refused before anything is computed.
    measure = build_quality(adherence, work.session, work.settings) if adherence else None
    prints = [measure.fingerprint] if measure else []
    if blind:
        prints.append(info_of(work.scorer(blind), blind).fingerprint)
    if embedder:
        prints.append(build_features([embedder], work.session, work.settings).fingerprint)
    inputs = hashes_of(against)
    cells = plan_grid([pairs], scorers, None, work)
    checks = check_rows(pairs, CheckOptions(measure, gap, blind, apart, against), work)
    gaps = next((check.gaps for check in checks if check.gaps), None)
    sights = blind_sights(pairs, blind, work) if blind else []
    if measure and gaps:
        sights += [adherence_sight(gaps), *rubric_sight(pairs, measure, work)]
    seen = {sight.filter for sight in sights if sight.shown}
    unseen = {sight.filter for sight in sights} - seen - {"rubric"}
    rows = _rows(pairs, checks, unseen)
    grid = run_grid(cells, work)
    summary = AuditSummary(
        benchmark=pairs.name,
        rows=len(rows),
        couples=len(pairs.couples),
        mirrored=pairs.mirrored,
        without_reason=sum(not row.reasons for row in rows),
        n_kept=sum(row.clean for row in rows),
        checks=tuple(map(_counted, checks)),
        adherence=adherence,
        blind=blind,
        gaps=_limits(gaps) if gaps else (),
        sights=tuple(sights),
        unseen=tuple(sorted(unseen)),
        without_user=without_user(pairs, embedder, work),
        standings=standings(grid),
    )
    folder = None
    if work.root is not None:
        identity = {
            "benchmark": pairs.name,
            "name": " ".join(Spec.parse(s).kind for s in (adherence, blind) if s) or "rows",
            "rows": pairs.content_hash,
            "seed": work.settings.seed,
            "options": [adherence, gap, blind, apart, embedder],
            "fingerprints": prints,
            "runs": [[*run.cell, *run.fingerprints] for run in grid.runs],
        }
        folder = Manifest.of(Audit.kind, identity, inputs=inputs).renew(work.root)
    result = Audit(summary, rows, folder)
    if folder is not None:
        result.save()
    return result


def _rows(
    pairs: Dataset, checks: Sequence[CheckResult], unseen: Collection[str]
) -> tuple[AuditRow, ...]:
    details: list[dict[str, str]] = [{} for _ in pairs.rows]
    for check in checks:
        for of_row, detail in zip(details, check.details, strict=True):
            if detail is not None:
                of_row[check.name] = detail
    reasons = [tuple(name for name in of_row if name not in unseen) for of_row in details]
    whole = [
        not reasons[k] and (mirror < 0 or not reasons[mirror])
        for k, mirror in enumerate(pairs.mirror_rows)
    ]
    return tuple(
        AuditRow(id=pair.id, reasons=reasons[k], details=details[k], clean=whole[k])
        for k, pair in enumerate(pairs.rows)
    )


def _counted(check: CheckResult) -> CheckCount:
    failed = sum(detail is not None for detail in check.details)
    name, _, n, needs, verbatim, _ = check
    return CheckCount(name=name, n_checked=n, n_failed=failed, needs=needs, verbatim=verbatim)


def _limits(gaps: Gaps) -> tuple[GapLimit, ...]:
    gaps_of = {
        size: [g for unit, g in zip(gaps.units, gaps.gaps, strict=True) if len(unit) == size]
        for size in gaps.thresholds
    }
    return tuple(
        GapLimit(
            of="couples" if size == 2 else "rows",
            n=len(gaps_of[size]),
            n_above=sum(limit is not None and g > limit + ROUNDING for g in gaps_of[size]),
            limit=limit,
            n_null=len(gaps.null[size]),
        )
        for size, limit in gaps.thresholds.items()
    )
