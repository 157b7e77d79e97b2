"""palate serve: a scorer as a reward, over HTTP."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from palate.cli import options as flags
from palate.cli.compute_options import Computing
from palate.cli.console import err
from palate.cli.data_options import LoadingWithChoices
from palate.cli.flatten import flatten_options
from palate.serve import serve as run

LOCAL = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Serving:
    """Where the server listens, who may ask, and how much may wait."""

    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8000
    max_waiting: Annotated[
        int, typer.Option(help="Answers that may wait; more are told to come back.", min=1)
    ] = 1024
    key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the bearer token.")
    ] = None
    feedback: Annotated[
        Path | None, typer.Option(help="File (.jsonl) to which users' choices are appended.")
    ] = None
    test_share: Annotated[
        float, typer.Option(help="Share of questions whose choices are for testing.")
    ] = 0.0
    end_of_turn: Annotated[
        list[str],
        typer.Option(help="What ends the policy's turn, beside the usual tokens; repeat."),
    ] = field(default_factory=list)


@flatten_options
def serve(
    scorer: flags.OneScorer,
    *,
    context: flags.OneContext = "none",
    benchmark: Annotated[
        str | None,
        flags.benchmark_option(
            rich_help_panel="Data", help="Benchmark or file whose rows and users are known."
        ),
    ] = None,
    serving: Serving,
    loading: LoadingWithChoices,
    computing: Computing,
) -> None:
    """Serve a scorer as a reward to trainers, over HTTP.

    Answers that wait are scored together. SIGTERM finishes what waits, then ends.
    """
    pairs = None
    if benchmark is not None:
        (pairs,) = loading.load_all([benchmark], computing.seed)

    def listening(url: str) -> None:
        among = "" if pairs is None else f" · {pairs.name}"
        spec = f"{scorer} · {context}"
        err.print(f"palate: {spec}{among} at {url} (process {os.getpid()})", highlight=False)
        if serving.host not in LOCAL and not serving.key_env:
            err.print(
                f"palate: anyone who reaches {serving.host} may ask; see --key-env",
                style="bold yellow",
                highlight=False,
            )

    settings = computing.settings()
    with computing.session() as session:
        run(
            scorer, context, benchmark=pairs, **vars(serving), listening=listening,
            session=session, settings=settings,
        )  # fmt: skip
