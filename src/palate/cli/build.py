"""palate build own-text: pairs of what users wrote and another text on the same input."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from palate.cli import options as flags
from palate.cli.compute_options import Models
from palate.cli.console import bars_of, err, show
from palate.cli.flatten import flatten_options
from palate.construction import build_own_text
from palate.construction.own_text.pairing import OTHERS
from palate.construction.own_text.pipeline import ADAPT_ROWS
from palate.reports import Form
from palate.reports.kinds.own_text import tables as own_text_tables
from palate.reports.kinds.own_text import warning as own_text_warning


@dataclass(frozen=True)
class OwnTextOptions:
    """What is read, and which texts stand against the user's own."""

    layout: Annotated[
        str, typer.Option(help="lamp, longlamp, stackexchange, or rows: palate's own.")
    ]
    rejected: Annotated[
        str,
        typer.Option(
            help="'others': other authors only; or who answers where none wrote: a model."
        ),
    ] = OTHERS
    outputs: Annotated[
        Path | None, typer.Option(help="LaMP's outputs, where they lie elsewhere.")
    ] = None
    adapt: Annotated[
        int, typer.Option(help="Most earlier texts of a user that become adapt rows.")
    ] = ADAPT_ROWS


@flatten_options
def own_text(
    source: Annotated[Path, typer.Argument(help="File, or the folder that it lies in.")],
    *,
    built: OwnTextOptions,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File to write: .jsonl or .jsonl.gz.")
    ],
    root: Annotated[Path, typer.Option(help="Folder under which the result is kept.")] = Path(
        "runs"
    ),
    skip_bad_rows: flags.SkipBadRows = False,
    order_as_in_file: flags.OrderAsInFile = False,
    models: Models,
    form: flags.Format = Form.TABLE,
) -> None:
    """Pair users' own texts with other texts on the same input, and leave out what leaks.

    A model's answers are drawn once and kept as they come: the same call goes on after a stop.
    """
    settings = models.settings()
    with models.session() as session, bars_of(session.ledger) as display:
        build = build_own_text(
            source,
            output,
            layout=built.layout,
            rejected=built.rejected,
            outputs=built.outputs,
            adapt=built.adapt,
            skip_bad_rows=skip_bad_rows,
            order_as_in_file=order_as_in_file,
            root=root,
            session=session,
            settings=settings,
            start=display.start,
        )
    show(own_text_tables(build), form, build.document())
    if warning := own_text_warning(build):
        err.print(warning, style="yellow", highlight=False, markup=False)
