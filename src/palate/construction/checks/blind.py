"""Rows in which one answer is better for anybody: a scorer that is shown nothing tells them."""

from __future__ import annotations

from palate.benchmarks import Dataset
from palate.construction.checks.texts import Faults
from palate.errors import EndpointError, UsageError
from palate.evaluation import Work, evaluated, spec_of
from palate.records import Judge, Outcome, Scorer, info_of
from palate.records.verdicts import sign
from palate.runs import VerdictRow


def blind_faults(
    pairs: Dataset, blind: str | Scorer | Judge, apart: float | None, work: Work
) -> Faults:
    """Name the answer that is better, whichever, or say why a row is unscored.

    A judge must prefer it in both orders; a scorer by more than `apart` of its points. The verdicts
    are an ordinary run, kept under the work's root.

    Raises:
        UsageError: for a scorer that needs the user, and an `apart` that lacks or does not fit.
        EndpointError: where an endpoint did not answer; what came is kept.
    """
    scorer = work.scorer(blind)
    spec = spec_of(scorer, blind if isinstance(blind, str) else None)
    check_blind(scorer, spec, apart)
    run = evaluated(blind, pairs, "none", work, progress=work.start(f"{spec}, shown nothing"))
    if run.outages:
        raise EndpointError(
            f"{spec}: {run.outages} of {len(pairs.rows)} rows got no answer; what came is kept, "
            "run the same command again"
        )
    return [_faults(row, apart) for row in run.verdicts.rows]


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


def _faults(row: VerdictRow, apart: float | None) -> list[str]:
    if row.outcome is Outcome.UNSCORED or row.margin is None:
        return [f"unscored: {row.reason}"]
    better = f"{'chosen' if row.margin > 0 else 'rejected'} is better by {abs(row.margin):.3g}"
    if apart is not None:
        return [better] if abs(row.margin) > apart else []
    votes = {sign(order or 0.0) for order in row.orders or (row.margin,)}
    return [better] if votes in ({1}, {-1}) else []
