"""palate serve: a scorer as a reward, over HTTP."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from palate.cli import options as flags
from palate.cli.console import err
from palate.cli.declare import option
from palate.cli.options import Computing, LoadingWithChoices
from palate.serve import serve as run


@dataclass(frozen=True)
class Serving:
    """Where the server listens, who may ask, and how much may wait."""

    host: str = option("127.0.0.1", "Address to listen at.")
    port: int = option(8000, "Port; 0 takes a free one.", min=0, max=65535)
    max_waiting: int = option(1024, "Answers that may wait; more are told to come back.", min=1)
    key_env: str | None = option(None, "Environment variable that holds the bearer token.")
    feedback: Path | None = option(None, "File (.jsonl) to which users' choices are appended.")
    test_share: float = option(0.0, "Share of questions whose choices are for testing.")
    end_of_turn: list[str] = option(
        [], "What ends the policy's turn, beside the usual tokens; repeat."
    )


def serve(
    scorer: str = flags.SCORER,
    *,
    context: str = flags.CONTEXT,
    benchmark: str | None = flags.benchmark(
        None, "Benchmark or file whose rows and users are known.", panel="Data"
    ),
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
        err.print(f"palate: {spec}{among} at {url} (process {os.getpid()})")
        if serving.host not in flags.LOCAL and not serving.key_env:
            err.print(
                f"palate: anyone who reaches {serving.host} may ask; see --key-env",
                style="bold yellow",
            )

    how = vars(serving) | {"benchmark": pairs, "listening": listening}
    settings = computing.settings()
    with computing.session(loading.quoting) as session:
        run(scorer, context, session=session, settings=settings, **how)
