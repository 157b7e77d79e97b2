"""palate audit: do a benchmark's pairs differ by their users' taste alone?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from palate.cli import options as flags
from palate.cli.completion import named
from palate.cli.compute_options import ComputingLocally
from palate.cli.console import bars_of, err, show
from palate.cli.data import contract_row
from palate.cli.data_options import LoadingAnyLayout
from palate.cli.flatten import flatten_options
from palate.construction import audit as audit_pairs
from palate.construction.checks.pipeline import GAP
from palate.construction.writing import check_output, rows_file
from palate.data import files_of
from palate.errors import UnscoredError, UsageError
from palate.reports import Form
from palate.reports.kinds.audit import tables as audit_tables
from palate.scorers import GROUP


@dataclass(frozen=True)
class RowChecks:
    """What the checks of rows read beside the rows."""

    adherence: Annotated[
        str | None, typer.Option(help="Measure of quality: how far an answer meets a rubric.")
    ] = None
    gap: Annotated[
        str,
        typer.Option(help="What a gap must be above: a number, or null:Q of third users' gaps."),
    ] = GAP
    blind: Annotated[
        str | None, typer.Option(help="Scorer that is shown nothing, for what anybody prefers.")
    ] = None
    apart: Annotated[
        float | None, typer.Option(help="By how many of its points one answer is better.")
    ] = None
    against: Annotated[
        list[Path] | None, typer.Option(help="File that must share no text; may be repeated.")
    ] = None


@dataclass(frozen=True)
class Checks(RowChecks):
    """What an audit reads beside the rows."""

    scorer: Annotated[
        list[str] | None, named(GROUP)(help="Scorer whose finding is added; may be repeated.")
    ] = None
    embedder: Annotated[
        str | None, typer.Option(help="Model whose vectors a second probe reads.")
    ] = None


@flatten_options
def audit(
    benchmark: Annotated[str, flags.benchmark_option(help="Benchmark or file of pairs.")],
    *,
    checks: Checks,
    kept_file: Annotated[
        Path | None,
        typer.Option("--kept", help="Write the rows without a reason: .jsonl or .jsonl.gz."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 for any reason, and for any refuted.")
    ] = False,
    output: flags.Root = Path("runs"),
    loading: LoadingAnyLayout,
    computing: ComputingLocally,
    form: flags.Format = Form.TABLE,
) -> None:
    """Check whether a benchmark's pairs differ by their users' taste alone.

    Each row is kept or has reasons; a filter that is not shown to see is no reason.
    """
    if kept_file is not None:
        check_output(kept_file, "--kept")
        source = Path(benchmark)
        if source.exists() and kept_file.resolve() in [f.resolve() for f in files_of(source)]:
            raise UsageError(f"--kept {kept_file}: is the benchmark itself; name another file")
    settings = computing.settings()
    (pairs,) = loading.load_all([benchmark], computing.seed)
    with computing.session() as session, bars_of(session.ledger) as display:
        result = audit_pairs(
            pairs,
            adherence=checks.adherence,
            gap=checks.gap,
            blind=checks.blind,
            apart=checks.apart,
            against=checks.against or (),
            scorers=checks.scorer or (),
            embedder=checks.embedder,
            root=output,
            session=session,
            settings=settings,
            retry_unscored=computing.retry_unscored,
            start=display.start,
        )
    show(audit_tables(result), form, result.document())
    if kept_file is not None:
        if not result.summary.n_kept:
            raise UnscoredError(
                f"--kept {kept_file}: no row is without a reason; nothing is written"
            )
        with rows_file(kept_file) as writer:
            for row, checked in zip(pairs.rows, result.rows, strict=True):
                if checked.clean:
                    writer.write(contract_row(row))
    if strict and not result.clean:
        n, refuted = len(result.rows) - result.summary.without_reason, result.summary.refuted
        err.print(f"strict: {n:,} rows have a reason; refuted: {', '.join(refuted) or 'none'}")
        raise typer.Exit(1)
