"""palate build and audit: how benchmarks are made, and whether they test taste alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import typer

from palate.cli import options as flags
from palate.cli.console import err, show, show_result, show_text, width
from palate.cli.data import contract_row
from palate.cli.declare import argument, option
from palate.cli.options import ComputingLocally, LoadingAnyLayout, Models
from palate.construction import audit as audit_pairs
from palate.construction import build_own_text
from palate.construction.audit import GAP
from palate.construction.own_text import ADAPT_ROWS, OTHERS
from palate.construction.pair_records import PairsOptions
from palate.construction.pairs import build_pairs, plan_pairs
from palate.construction.question_sources import LAYOUTS
from palate.construction.rows import check_output, dropped_by_row, rows_file
from palate.data import files_of
from palate.errors import UnscoredError, UsageError
from palate.reports import Form, render
from palate.reports.construction import audit_tables, examples, own_text_warning
from palate.reports.numbers import most_common
from palate.reports.table import account_table
from palate.stores import cache_folder

DEFAULT = PairsOptions(layout="", writers=())
RUNS = Path("runs")
SOURCE = argument(..., "File, or the folder that it lies in.")
_models = partial(option, panel="Who reads and writes")


@dataclass(frozen=True, kw_only=True)
class OwnTextOptions:
    """What is read and written, and which texts stand against the user's own."""

    layout: str = option(..., "lamp, longlamp, stackexchange, or rows: palate's own.")
    rejected: str = option(
        OTHERS, "'others': other authors only; or who answers where none wrote: a model."
    )
    outputs: Path | None = option(None, "LaMP's outputs, where they lie elsewhere.")
    adapt: int = option(ADAPT_ROWS, "Most earlier texts of a user that become adapt rows.")
    output: Path = option(..., "File to write: .jsonl or .jsonl.gz.", "-o", "--output")
    root: Path = option(RUNS, "Folder under which the result is kept.")
    skip_bad_rows: bool = flags.SKIP_BAD_ROWS
    order_as_in_file: bool = flags.ORDER_AS_IN_FILE
    own_edits: bool = option(False, "Leave out what others edited last.")


def own_text(
    source: Path = SOURCE, *, built: OwnTextOptions, models: Models, form: Form = flags.FORMAT
) -> None:
    """Pair users' own texts with other texts on the same input, and leave out what leaks.

    A model's answers are drawn once and kept as they come: the same call goes on after a stop.
    """
    with models.at_work() as work:
        build = build_own_text(source, **vars(built), **work)
    show_result(build, form)
    if warning := own_text_warning(build):
        err.print(warning, style="yellow")


@dataclass(frozen=True)
class SourceOptions:
    """How the source is read, and how far."""

    layout: str = option(..., f"{', '.join(LAYOUTS[:-1])} or {LAYOUTS[-1]}.")
    keep_ids: bool = option(False, "Keep users' and posts' ids; else they are numbers.")
    skip_bad_rows: bool = flags.SKIP_BAD_ROWS
    limit: int | None = option(None, "The source's first N questions.")


@dataclass(frozen=True)
class AnswerOptions:
    """Who reads what users expect, and who writes the answers."""

    writers: list[str] = _models(
        [], "Who writes: hub, pypi:PACKAGE or api:; repeatable.", "--writer"
    )
    reader: str | None = _models(None, "Who reads what users expect, where rows have no rubric.")
    attempts: int = _models(DEFAULT.attempts, "Most samples of the reader for a user.")
    rejected: str = _models(
        DEFAULT.rejected, "mirror: what another user prefers; violate: against the rubric."
    )
    writer_context: str = _models(
        DEFAULT.writer_context, "none, or profile:N: posts that the writer is shown."
    )
    words: str = _models(DEFAULT.words, "Fewest and most words of an answer.")
    drafts: int = _models(DEFAULT.drafts, "Samples of an answer; the two nearest in length stay.")


@dataclass(frozen=True)
class RowChecks:
    """What the checks of rows read beside the rows."""

    adherence: str | None = option(None, "Measure of quality: how far an answer meets a rubric.")
    gap: str = option(GAP, "What a gap must be above: a number, or null:Q of third users' gaps.")
    blind: str | None = option(None, "Scorer that is shown nothing, for what anybody prefers.")
    apart: float | None = option(None, "By how many of its points one answer is better.")
    against: list[Path] = option([], "File that must share no text; may be repeated.")


@dataclass(frozen=True)
class OutputOptions:
    """Where the result goes, and under which licence."""

    output: Path = option(..., "Folder of the result.", "-o", "--output")
    root: Path = option(RUNS, "Folder under which runs of a blind scorer are kept.")
    licence: str | None = option(None, "Licence of the data set, as the hub names it.")


def pairs(
    source: Path = SOURCE,
    *,
    reading: SourceOptions,
    answered: AnswerOptions,
    checks: RowChecks,
    result: OutputOptions,
    dry_run: bool = option(False, "Print the most calls by role, and ask nothing."),
    models: Models,
    form: Form = flags.FORMAT,
) -> None:
    """Let a language model write pairs to what users' own posts show, and drop what fails a check.

    Replies are kept as they come: the same or a larger call goes on from there.
    """
    models = replace(models, cache=models.cache or str(cache_folder() / "replies"))
    given = vars(reading) | vars(answered) | vars(checks)
    options = PairsOptions(licence=result.licence, **given)
    with models.at_work() as work:
        if dry_run:
            calls = plan_pairs(source, options, session=work["session"], settings=work["settings"])
            asked = ", ".join(f"{role} {n:,}" for role, n in calls.items())
            show_text(f"at most so many calls: {asked}")
            return
        build = build_pairs(source, result.output, options, root=result.root, **work)
    show_result(build, form)
    if form is Form.TABLE:
        show_text("\n" + render([*examples(build)], Form.TABLE, width=min(width(), 100)))
    if not build.summary.pairs:
        stages = build.summary.stages
        reasons = dropped_by_row(stages, dict.fromkeys(stage.of for stage in stages))
        counts = "; ".join(most_common(n, of) for of, n in reasons.items() if n)
        raise UnscoredError(f"no pair is kept: {counts}")


@dataclass(frozen=True)
class Checks(RowChecks):
    """What an audit reads beside the rows."""

    scorers: list[str] = flags.scorer([], "Scorer whose finding is added; may be repeated.")
    embedder: str | None = option(None, "Model whose vectors a second probe reads.")


def audit(
    file: str | None = flags.FILE,
    *,
    benchmark: str | None = flags.FILE_TOO,
    checks: Checks,
    kept_file: Path | None = option(
        None, "Write the rows without a reason: .jsonl or .jsonl.gz.", "--kept"
    ),
    strict: bool = option(False, "Exit 1 for any reason, and for any refuted."),
    output: Path = flags.ROOT,
    loading: LoadingAnyLayout,
    computing: ComputingLocally,
    form: Form = flags.FORMAT,
) -> None:
    """Check whether a benchmark's pairs differ by their users' taste alone.

    Each row is kept or has reasons; a filter that is not shown to see is no reason.
    """
    given = flags.only_one(file, benchmark)
    if given is None:
        raise UsageError("audit: name a benchmark or a file of pairs")
    if kept_file is not None:
        check_output(kept_file, "--kept")
        source = Path(given)
        if source.exists() and kept_file.resolve() in [f.resolve() for f in files_of(source)]:
            raise UsageError(f"--kept {kept_file}: is the benchmark itself; name another file")
    with computing.on([given], loading, output) as ((pairs,), work):
        result = audit_pairs(pairs, **vars(checks), **work)
    account = [account_table(pairs.name, pairs.account)] if pairs.account else []
    show([*audit_tables(result), *account], form, result.document())
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
