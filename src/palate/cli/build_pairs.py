"""palate build pairs: answers that a language model writes to what users' own posts show."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from palate.cli import options as flags
from palate.cli.audit import RowChecks
from palate.cli.compute_options import Models
from palate.cli.console import bars_of, show, show_text, width
from palate.cli.flatten import flatten_options
from palate.construction.pairs import PairsOptions, build_pairs, plan_pairs
from palate.construction.sources import LAYOUTS
from palate.construction.stage import dropped_by_row
from palate.errors import UnscoredError
from palate.reports import Form, render
from palate.reports.kinds.pairs import examples
from palate.reports.kinds.pairs import tables as pairs_tables
from palate.reports.numbers import most_common
from palate.stores import cache_folder

DEFAULT = PairsOptions(layout="", writers=())
_models = partial(typer.Option, rich_help_panel="Who reads and writes")


@dataclass(frozen=True)
class SourceOptions:
    """How the source is read, and how far."""

    layout: Annotated[str, typer.Option(help=f"{', '.join(LAYOUTS[:-1])} or {LAYOUTS[-1]}.")]
    keep_ids: Annotated[
        bool, typer.Option("--keep-ids", help="Keep users' and posts' ids; else they are numbers.")
    ] = False
    skip_bad_rows: flags.SkipBadRows = False
    limit: Annotated[int | None, typer.Option(help="The source's first N questions.")] = None


@dataclass(frozen=True)
class OutputOptions:
    """Where the result goes, and under which licence."""

    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the result.")]
    root: Annotated[
        Path, typer.Option(help="Folder under which runs of a blind scorer are kept.")
    ] = Path("runs")
    licence: Annotated[
        str | None, typer.Option(help="Licence of the data set, as the hub names it.")
    ] = None


@dataclass(frozen=True)
class AnswerOptions:
    """Who reads what users expect, and who writes the answers."""

    writers: Annotated[
        list[str] | None,
        _models("--writer", help="Who writes: hub, pypi:PACKAGE or api:; repeatable."),
    ] = None
    reader: Annotated[
        str | None, _models(help="Who reads what users expect, where rows have no rubric.")
    ] = None
    attempts: Annotated[int, _models(help="Most samples of the reader for a user.")] = (
        DEFAULT.attempts
    )
    rejected: Annotated[
        str, _models(help="mirror: what another user prefers; violate: against the rubric.")
    ] = DEFAULT.rejected
    writer_context: Annotated[
        str, _models(help="none, or profile:N: posts that the writer is shown.")
    ] = DEFAULT.writer_context
    words: Annotated[str, _models(help="Fewest and most words of an answer.")] = DEFAULT.words
    drafts: Annotated[
        int, _models(help="Samples of an answer; the two nearest in length stay.")
    ] = DEFAULT.drafts


@flatten_options
def pairs(
    source: Annotated[Path, typer.Argument(help="File, or the folder that it lies in.")],
    *,
    reading: SourceOptions,
    answered: AnswerOptions,
    checks: RowChecks,
    result: OutputOptions,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the most calls by role, and ask nothing.")
    ] = False,
    models: Models,
    form: flags.Format = Form.TABLE,
) -> None:
    """Let a language model write pairs to what users' own posts show, and drop what fails a check.

    Replies are kept as they come: the same or a larger call goes on from there.
    """
    settings = models.settings()
    given = asdict(answered) | asdict(checks)
    given |= {name: given[name] or () for name in ("writers", "against")}
    options = PairsOptions(licence=result.licence, **asdict(reading), **given)
    models = replace(models, cache=models.cache or str(cache_folder() / "replies"))
    with models.session() as session, bars_of(session.ledger) as display:
        if dry_run:
            calls = plan_pairs(source, options, session=session, settings=settings)
            asked = ", ".join(f"{role} {n:,}" for role, n in calls.items())
            show_text(f"at most so many calls: {asked}")
            return
        build = build_pairs(
            source,
            result.output,
            options,
            root=result.root,
            session=session,
            settings=settings,
            start=display.start,
        )
    show(pairs_tables(build), form, build.document())
    if form is Form.TABLE:
        show_text("\n" + render([*examples(build)], Form.TABLE, width=min(width(), 100)))
    if not build.summary.pairs:
        stages = build.summary.stages
        reasons = dropped_by_row(stages, dict.fromkeys(stage.of for stage in stages))
        counts = "; ".join(most_common(n, of) for of, n in reasons.items() if n)
        raise UnscoredError(f"no pair is kept: {counts}")
