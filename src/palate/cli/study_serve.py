"""palate study serve: a study's pages, over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from palate.cli.console import err
from palate.study.folder import LINKS
from palate.study.pages import serve_study

LOCAL = ("127.0.0.1", "::1", "localhost")


def serve(
    study: Annotated[Path, typer.Argument(help="Folder that palate study plan made.")],
    *,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8000,
    url: Annotated[
        str | None, typer.Option(help="Address that raters see, as https://study.example.org.")
    ] = None,
    arrive: Annotated[
        str | None,
        typer.Option(metavar="PARAM", help="Parameter that names who arrives: PROLIFIC_PID."),
    ] = None,
    onward: Annotated[
        str | None, typer.Option("--return", metavar="URL", help="What the last page links.")
    ] = None,
    hold: Annotated[
        float, typer.Option(help="Minutes until an abandoned place goes to the next.")
    ] = 60,
) -> None:
    """Serve the study's pages to its raters: plain forms, without script or cookie.

    The first start writes every rater's link into STUDY/links.csv. With --arrive, whoever comes
    with that parameter takes a place instead. Ctrl-C or SIGTERM ends it, and nothing is lost.
    """

    def listening(address: str, links: Path | None) -> None:
        where = f"links in {links}" if links else f"raters come to {address}/?{arrive}=…"
        err.print(f"palate: {study} at {address} (process {os.getpid()}); {where}", highlight=False)
        if links is None and (study / LINKS).exists():
            warning = f"palate: a place of {LINKS} is free once palate study close {study} RATER"
            err.print(warning, style="bold yellow", highlight=False)
        if host not in LOCAL:
            warning = "palate: not encrypted; put a proxy with TLS before it, and name it by --url"
            err.print(warning, style="bold yellow", highlight=False)

    serve_study(
        study,
        host=host,
        port=port,
        url=url,
        arrive=arrive,
        onward=onward,
        hold_minutes=hold,
        listening=listening,
    )
