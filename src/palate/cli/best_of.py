"""palate best-of-n: what users get when a scorer picks among a policy's answers."""

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
from palate.errors import UsageError
from palate.reports import Form
from palate.reports.kinds.best_of_n import tables as best_of_tables
from palate.reports.plot import plot
from palate.uses.best_of_n import best_of_n


@dataclass(frozen=True)
class QualityOptions:
    """What is read off the answers that scorers pick."""

    quality: Annotated[
        list[str],
        typer.Option("-q", "--quality", help="Measure of quality; may be repeated."),
    ]
    k: Annotated[
        list[int] | None,
        typer.Option("-k", help="Best of how many; may be repeated; default 1, 2, 4, … n."),
    ] = None
    contrast: Annotated[
        bool,
        typer.Option("--contrast", help="Also quality less the mirrored user's."),
    ] = False


@dataclass(frozen=True)
class SampleOptions:
    """Whose answers there are, and how many."""

    policy: Annotated[
        str | None,
        typer.Option("-p", "--policy", help="Who answers: hub, ./folder, pypi:PACKAGE or api:…"),
    ] = None
    samples: Annotated[
        Path | None, typer.Option(help='Answers that exist: lines {"id": …, "samples": […]}.')
    ] = None
    n: Annotated[int | None, typer.Option("-n", help="Answers to a question; default 16.")] = None
    policy_context: Annotated[str, typer.Option(help="What the policy is shown of the user.")] = (
        "none"
    )

    def source(self) -> str | Path:
        """Return the policy, or the file; raises `UsageError` unless it is one of the two."""
        given = self.policy if self.samples is None else self.samples
        if given is None or (self.policy is not None and self.samples is not None):
            raise UsageError(
                "best-of-n: name a policy (-p), or a file of --samples; one of the two"
            )
        if self.samples is not None and self.policy_context != "none":
            raise UsageError(
                f"--policy-context {self.policy_context}: the answers of --samples are there "
                "already; name a policy (-p), or leave it out"
            )
        return given


@flatten_options
def best_of(
    benchmark: Annotated[str, flags.benchmark_option(help="Benchmark or file.")],
    scorer: flags.Scorers,
    *,
    measured: QualityOptions,
    answers: SampleOptions,
    context: flags.Contexts = ["none"],  # noqa: B006 - typer copies it
    output: flags.Root = Path("runs"),
    picture: flags.Picture = None,
    loading: LoadingWithChoices,
    computing: Computing,
    form: flags.Format = Form.TABLE,
) -> None:
    """Draw n answers to every question, let scorers pick, and rate what they picked.

    Samples are drawn once and read by all scorers; what is finished is not computed again.
    """
    source = answers.source()
    settings = computing.settings()
    (pairs,) = loading.load_all([benchmark], computing.seed)
    with computing.session() as session, bars_of(session.ledger) as display:
        result = best_of_n(
            pairs,
            source,
            scorer,
            context,
            measured.quality,
            n=answers.n,
            ks=measured.k,
            policy_context=answers.policy_context,
            contrast=measured.contrast,
            root=output,
            session=session,
            settings=settings,
            retry_unscored=computing.retry_unscored,
            start=display.start,
        )
    show(best_of_tables(result), form, result.document())
    if picture is not None:
        plot(result, picture)
