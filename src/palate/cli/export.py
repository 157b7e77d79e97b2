"""palate export --to TRAINER: a folder from which another trainer trains a policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import typer

from palate.cli import options as flags
from palate.cli.compute_options import Models
from palate.cli.console import bars_of, show_text
from palate.cli.data_options import LoadingWithChoices
from palate.cli.flatten import flatten_options
from palate.trainers.export import HELD_OUT, TARGETS, export


@dataclass(frozen=True)
class ExportOptions:
    """Who is trained, on whose questions, and where the rewards come from."""

    policy: Annotated[
        str, typer.Option("-p", "--policy", help="Who is trained: hub, ./folder or pypi:PACKAGE.")
    ]
    output: Annotated[Path, typer.Option("-o", "--output", help="New folder for the files.")]
    policy_context: Annotated[str, typer.Option(help="What the policy is shown of the user.")] = (
        "none"
    )
    held_out: Annotated[int, typer.Option(help="Users who are not trained on.")] = HELD_OUT
    url: Annotated[str, typer.Option(help="Where palate serve will answer.")] = (
        "http://127.0.0.1:8000"
    )
    key_env: Annotated[
        str | None, typer.Option(help="Environment variable that will hold the bearer token.")
    ] = None
    scale: Annotated[
        tuple[float, float],
        typer.Option(help="Mean and deviation: a reward is (score - mean) / deviation."),
    ] = (0.0, 1.0)
    kl_coefficient: Annotated[
        float, typer.Option("--kl", help="What a nat of KL from the untrained policy costs.")
    ] = 0.05


@flatten_options
def export_folder(
    to: Annotated[
        Literal["trl", "verl", "openrlhf"], typer.Option(help="Who trains: trl, verl or openrlhf.")
    ],
    benchmark: Annotated[str, flags.benchmark_option(help="Benchmark or file.")],
    scorer: flags.OneScorer,
    *,
    context: flags.OneContext = "none",
    told: ExportOptions,
    loading: LoadingWithChoices,
    models: Models,
) -> None:
    """Write a folder from which another trainer trains a policy on a scorer's rewards.

    trl: its RLOO and GRPO; verl and openrlhf: their PPO. It prints the two commands to run then.
    """
    settings = models.settings()
    (pairs,) = loading.load_all([benchmark], models.seed)
    with models.session() as session, bars_of(session.ledger) as shown:
        shown.start(f"prompts for {TARGETS[to].title}")
        exported = export(
            pairs,
            told.policy,
            scorer,
            context,
            to=to,
            output=told.output,
            policy_context=told.policy_context,
            held_out=told.held_out,
            url=told.url,
            key_env=told.key_env,
            scale=told.scale,
            kl_coefficient=told.kl_coefficient,
            data_words=list(_words(benchmark, loading, models)),
            session=session,
            settings=settings,
        )
    show_text(
        f"{exported.folder}: {exported.train_rows:,} prompts of {exported.train_users:,} users "
        f"to train on, {exported.held_out_rows:,} of {exported.held_out_users:,} others held out\n"
        f"serve:  {exported.serve}\n"
        f"train:  cd {quote(str(exported.folder))} && {exported.start}"
        + (f"\nmakes:  {exported.updates}" if exported.updates else "")
        + "".join(f"\nnote:   {note}" for note in exported.notes)
    )


def _words(benchmark: str, loading: LoadingWithChoices, models: Models) -> Iterator[str]:
    """Yield the options by which `palate serve` loads the same rows and computes the same."""
    yield from ("-b", benchmark)
    given = {
        "--split": loading.split,
        "--mirrors": loading.mirrors,
        "--since": loading.since,
        "--until": loading.until,
        "--limit": loading.limit,
        "--choices": loading.choices,
        "--source": loading.source,
        "--revision": loading.revision,
        "--seed": models.seed or None,
        "--dtype": models.dtype,
        "--template-date": models.template_date,
        "--chat-template": models.chat_template,
    }
    for flag, value in given.items():
        if value is not None:
            yield from (flag, str(value))
    for column in loading.columns or ():
        yield from ("--map", column)
    if loading.skip_bad_rows:
        yield "--skip-bad-rows"
    if loading.order_as_in_file:
        yield "--order-as-in-file"
