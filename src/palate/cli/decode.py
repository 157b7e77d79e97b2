"""palate decode: what users get when a scorer guides a policy's writing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from palate.cli import options as flags
from palate.cli.compute_options import Computing
from palate.cli.console import bars_of, show
from palate.cli.data_options import LoadingWithChoices
from palate.cli.flatten import flatten_options
from palate.reports import Form
from palate.reports.kinds.decode import tables as decode_tables
from palate.uses.decode import decode as guide


@dataclass(frozen=True)
class GuidingOptions:
    """Whom scorers guide, by which methods, and what is read off the answers."""

    policy: Annotated[
        str, typer.Option("-p", "--policy", help="Who writes: hub, ./folder or pypi:PACKAGE.")
    ]
    quality: Annotated[
        list[str], typer.Option("-q", "--quality", help="Measure of quality; may be repeated.")
    ]
    method: Annotated[
        list[str],
        typer.Option(
            "--method", help="genarm, pad, proxy, mod, …, args, blocks or rejection; repeatable."
        ),
    ]
    weight: Annotated[
        list[float] | None,
        typer.Option(help="Weight of the guide; may be repeated; default the method's own."),
    ] = None
    n: Annotated[int, typer.Option("-n", help="Answers to a question.")] = 4
    policy_context: Annotated[str, typer.Option(help="What the policy is shown of the user.")] = (
        "none"
    )
    contrast: Annotated[
        bool,
        typer.Option("--contrast", help="Also quality less the mirrored user's."),
    ] = False


@flatten_options
def decode(
    benchmark: Annotated[str, flags.benchmark_option(help="Benchmark or file.")],
    scorer: flags.Scorers,
    *,
    guiding: GuidingOptions,
    context: flags.Contexts = ["none"],  # noqa: B006 - typer copies it
    output: flags.Root = Path("runs"),
    loading: LoadingWithChoices,
    computing: Computing,
    form: flags.Format = Form.TABLE,
) -> None:
    """Let scorers guide what a policy writes, each shown the contexts, and rate the answers.

    Answers are kept as they are written; what is finished is not written again.
    """
    settings = computing.settings()
    (pairs,) = loading.load_all([benchmark], computing.seed)
    with computing.session() as session, bars_of(session.ledger) as display:
        result = guide(
            pairs,
            guiding.policy,
            scorer,
            context,
            guiding.quality,
            methods=guiding.method,
            weights=guiding.weight or (),
            n=guiding.n,
            policy_context=guiding.policy_context,
            contrast=guiding.contrast,
            root=output,
            session=session,
            settings=settings,
            retry_unscored=computing.retry_unscored,
            start=display.start,
        )
    show(decode_tables(result), form, result.document())
