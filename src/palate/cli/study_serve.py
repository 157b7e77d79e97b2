"""palate study serve: a study's pages, over HTTP."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from palate.cli.console import err
from palate.cli.flatten import flatten_options
from palate.study.pages import serve_study

LOCAL = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Address:
    """Where the pages are, for this machine and for the raters."""

    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8000
    url: Annotated[
        str | None, typer.Option(help="Address that raters see, as https://study.example.org.")
    ] = None


@dataclass(frozen=True)
class Arriving:
    """Raters who come from a crowd platform."""

    arrive: Annotated[
        str | None,
        typer.Option(metavar="PARAM", help="Parameter that names who arrives: PROLIFIC_PID."),
    ] = None
    onward: Annotated[
        str | None, typer.Option("--return", metavar="URL", help="What the last page links.")
    ] = None
    hold: Annotated[
        float, typer.Option(help="Minutes until an abandoned place goes to the next.", min=1)
    ] = 60


@flatten_options
def serve(
    study: Annotated[Path, typer.Argument(help="Folder that palate study plan made.")],
    *,
    address: Address,
    arriving: Arriving,
) -> None:
    """Serve the study's pages to its raters: plain forms, without script or cookie.

    The first start writes every rater's personal link into STUDY/links.csv; with --arrive, whoever
    comes with that parameter takes a place instead. SIGTERM or Ctrl-C ends it; nothing is lost.
    """

    def listening(url: str, links: Path | None) -> None:
        where = f"{url}/?{arriving.arrive}=…" if links is None else f"links in {links}"
        err.print(f"palate: {study} at {url} (process {os.getpid()}); {where}", highlight=False)
        if address.host not in LOCAL:
            err.print(
                "palate: without encryption; put a proxy with TLS before it and say --url",
                style="bold yellow",
                highlight=False,
            )

    serve_study(
        study,
        host=address.host,
        port=address.port,
        url=address.url,
        arrive=arriving.arrive,
        onward=arriving.onward,
        hold_minutes=arriving.hold,
        listening=listening,
    )
