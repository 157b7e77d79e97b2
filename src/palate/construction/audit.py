"""audit(benchmark) → every check of its rows, what the filters see, what blind scorers tell."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from palate.benchmarks import Dataset, dataset_of, need_pairs
from palate.comparison import plan_grid, run_grid
from palate.construction import text_checks
from palate.construction.audit_records import Audit, AuditRow, AuditSummary, CheckCount
from palate.construction.filter_validation import (
    adherence_sight,
    blind_sights,
    blind_verdicts,
    rubric_sight,
    standings_of,
    without_user,
)
from palate.construction.gap import Gaps, gap_faults
from palate.construction.text_checks import Faults, hashes_of
from palate.embeddings import build_features
from palate.errors import UsageError
from palate.evaluation import Work, WorkOptions, spec_of
from palate.quality import QualityMetric, build_quality
from palate.records import Judge, Outcome, Scorer, info_of
from palate.records.arguments import checked
from palate.records.slates import sign
from palate.runs import Manifest, VerdictRow
from palate.specs import Spec


class CheckOptions(NamedTuple):
    """Options of the checks that need more than the rows."""

    adherence: str | QualityMetric | None = None
    """A measure of quality: how far an answer meets a rubric."""
    gap: str = "null:0.95"
    """What a gap must be above: a quantile of those under third users' rubrics, or a number."""
    blind: str | Scorer | Judge | None = None
    """A scorer or judge that is shown nothing of the user."""
    apart: float | None = None
    """The largest margin of a blind scorer, in its points, at which no answer is better."""
    against: Sequence[Path] = ()
    """Files that must share no 13 words with the benchmark."""


GAP = CheckOptions().gap


@checked
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
    **options: Unpack[WorkOptions],
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
    work = Work.of(**options)
    check_filters(adherence, gap, blind, apart)
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
    without, best = without_user(pairs, embedder, work)
    rows = _audit_rows(pairs, checks, unseen)
    grid = run_grid(cells, work)
    summary = AuditSummary(
        benchmark=pairs.name,
        rows=len(rows),
        undecided=pairs.ties,
        couples=len(pairs.couples),
        mirrored=pairs.mirrored,
        without_reason=sum(not row.reasons for row in rows),
        n_kept=sum(row.clean for row in rows),
        checks=tuple(check.counts for check in checks),
        adherence=adherence,
        blind=blind,
        gaps=gaps.limits if gaps else (),
        sights=tuple(sights),
        unseen=tuple(sorted(unseen)),
        without_user=without,
        ceilings=best,
        standings=standings_of(grid),
    )
    name = " ".join(Spec.parse(spec).kind for spec in (adherence, blind) if spec) or "rows"
    identity: dict[str, Any] = {"benchmark": pairs.name, "name": name}
    identity |= {"rows": pairs.content_hash, "seed": work.settings.seed}
    identity |= {"options": [adherence, gap, blind, apart, embedder], "fingerprints": prints}
    identity |= {"runs": [[*run.cell, *run.fingerprints] for run in grid.runs]}
    manifest = Manifest.of(Audit.kind, identity, inputs=inputs, account=pairs.account)
    return Audit(summary, rows).saved(work.root, manifest)


def check_filters(adherence: object, gap: str, blind: object, apart: float | None) -> None:
    """Raise `UsageError` for an option of a filter that is not named."""
    if adherence is None and gap != GAP:
        raise UsageError(f"--gap {gap}: a gap is of a measure; name one by --adherence")
    if blind is None and apart is not None:
        raise UsageError(f"--apart {apart:g}: it is of a scorer; name one by --blind")


def _audit_rows(
    pairs: Dataset, checks: Sequence[CheckResult], unseen: Collection[str]
) -> tuple[AuditRow, ...]:
    details = [
        {check.name: detail for check, detail in zip(checks, of_row, strict=True) if detail}
        for of_row in zip(*(check.details for check in checks), strict=True)
    ]
    reasons = [tuple(name for name in of_row if name not in unseen) for of_row in details]
    whole = [
        not reasons[k] and (mirror < 0 or not reasons[mirror])
        for k, mirror in enumerate(pairs.mirror_rows)
    ]
    return tuple(
        AuditRow(id=pair.id, reasons=reasons[k], details=details[k], clean=whole[k])
        for k, pair in enumerate(pairs.rows)
    )


class CheckResult(NamedTuple):
    """What one check says of every row."""

    name: str
    needs: str
    """What a row must have to be checked."""
    faults: Faults
    verbatim: tuple[int, int] | None = None
    """Of `quote`: how many evidences are quotations, and how many there are."""
    gaps: Gaps | None = None
    """Of `gap`: the figures behind it."""

    @property
    def details(self) -> tuple[str | None, ...]:
        """Of each row, why it fails, in words that quote no text of it; else None."""
        return tuple("; ".join(row or ()) or None for row in self.faults)

    @property
    def counts(self) -> CheckCount:
        """The same in number."""
        n, n_failed = sum(row is not None for row in self.faults), sum(map(bool, self.faults))
        needs, verbatim = None if n else self.needs, self.verbatim
        return CheckCount(
            name=self.name, n_checked=n, n_failed=n_failed, needs=needs, verbatim=verbatim
        )


def check_rows(pairs: Dataset, options: CheckOptions, work: Work) -> list[CheckResult]:
    """Return what each check says of every row; a check without its option needs it.

    Raises `UsageError` for options that cannot be read or do not fit the rows.
    """
    quoted, verbatim = text_checks.quote_faults(pairs)
    copied = text_checks.parrot_faults(pairs)
    adherence, gap, blind, apart, against = options
    none: Faults = [None] * len(pairs.pairs)
    shared = text_checks.contaminated_faults(pairs, against) if against else none
    low, gaps = gap_faults(pairs, adherence, gap, work) if adherence else (none, None)
    better = blind_faults(pairs, blind, apart, work) if blind else none
    third_users = "third users with rubrics" if adherence else "--adherence MEASURE"
    return [
        CheckResult("format", "answers", text_checks.format_faults(pairs)),
        CheckResult("quote", "evidence, and posts or narratives", quoted, verbatim),
        CheckResult("parrot", "narratives, rubrics or references", copied),
        CheckResult("leak", "profiles", text_checks.leak_faults(pairs)),
        CheckResult("later", "dates of questions and posts", text_checks.later_faults(pairs)),
        CheckResult("repeated", "user ids", text_checks.repeated_faults(pairs)),
        CheckResult("contaminated", "--against FILE", shared),
        CheckResult("gap", third_users, low, gaps=gaps),
        CheckResult("blind", "--blind SCORER", better),
    ]


def blind_faults(
    pairs: Dataset, blind: str | Scorer | Judge, apart: float | None, work: Work
) -> Faults:
    """Name the answer that is better for anybody, or say why a row is unscored.

    A judge must prefer it in both orders; a scorer by more than `apart` of its points. The verdicts
    are an ordinary run, kept under the work's root.

    Raises:
        UsageError: for a scorer that needs the user, and an `apart` that lacks or does not fit.
        EndpointError: where an endpoint did not answer; what came is kept.
    """
    scorer = work.scorer(blind)
    spec = spec_of(scorer, blind if isinstance(blind, str) else None)
    check_blind(scorer, spec, apart)
    verdicts = blind_verdicts(blind, pairs, work, spec, "shown nothing")
    return [_blind_faults(row, apart) for row in verdicts]


def check_blind(scorer: Scorer | Judge, spec: str, apart: float | None) -> None:
    """Raise `UsageError` for a scorer that needs the user, and an `apart` that does not fit."""
    info, judges = info_of(scorer, spec), isinstance(scorer, Judge)
    if info.needs_user or info.needs_shown:
        raise UsageError(f"--blind {spec}: it needs the user; name one that can do without")
    if info.protocol == "paper":
        raise UsageError(f"--blind {spec}: protocol=paper asks one order; both are needed")
    if judges and apart is not None:
        raise UsageError(f"--apart {apart:g}: {spec} is a judge, whose two orders must agree")
    if not judges and (apart is None or not 0 <= apart < float("inf")):
        raise UsageError(
            f"--blind {spec}: --apart N says by how many of its points, 0 or more, one answer is "
            "better"
        )


def _blind_faults(row: VerdictRow, apart: float | None) -> list[str]:
    if row.outcome is Outcome.UNSCORED or row.margin is None:
        return [f"unscored: {row.reason}"]
    better = f"{'chosen' if row.margin > 0 else 'rejected'} is better by {abs(row.margin):.3g}"
    if apart is not None:
        return [better] if abs(row.margin) > apart else []
    votes = {sign(order or 0.0) for order in row.orders or (row.margin,)}
    return [better] if votes in ({1}, {-1}) else []
