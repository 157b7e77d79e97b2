"""palate best-of-n: what users get when a scorer picks among a policy's answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from palate.benchmarks import LoadOptions, load_benchmark
from palate.cli import options as flags
from palate.cli.console import bars, err, show
from palate.contexts import build_context
from palate.data import parse_columns
from palate.downstream import (
    best_of_n,
    build_policy,
    build_quality,
    check_mirrored,
    check_number,
    check_sizes,
    draw_samples,
    load_samples,
    plan_cells,
    shown_to_policy,
)
from palate.engines.http import ledger_of
from palate.errors import UsageError
from palate.evaluation import Options
from palate.reports import Form
from palate.reports.best_of import best_of_tables, plot_best_of
from palate.reports.pictures import check_picture
from palate.runs import slug


def best_of(
    benchmark: Annotated[str, typer.Option("-b", "--benchmark", help="Benchmark or file.")],
    scorer: flags.Scorers,
    quality: Annotated[
        list[str],
        typer.Option("-q", "--quality", help="Measure of quality; may be repeated."),
    ],
    policy: Annotated[
        str | None,
        typer.Option("-p", "--policy", help="Who answers: hub, ./folder, pypi:PACKAGE or api:…"),
    ] = None,
    samples: Annotated[
        Path | None, typer.Option(help='Answers that exist: lines {"id": …, "samples": […]}.')
    ] = None,
    n: Annotated[int | None, typer.Option("-n", help="Answers to a question; default 16.")] = None,
    ks: Annotated[
        str | None, typer.Option(help="Sizes, comma-separated; default 1, 2, 4, … n.")
    ] = None,
    context: flags.Contexts = ["none"],  # noqa: B006 - typer copies it
    policy_context: Annotated[
        str, typer.Option(help="What the policy is shown of the user.")
    ] = "none",
    output: flags.Root = Path("runs"),
    picture: Annotated[
        Path | None, typer.Option("--plot", help="Also draw it, into a PNG or SVG.")
    ] = None,
    contrast: Annotated[
        bool, typer.Option(help="Also rate each answer less what it is for the mirrored user.")
    ] = False,
    split: flags.Split = None,
    mirrors: flags.Mirrors = None,
    limit: flags.Limit = None,
    seed: flags.Seed = 0,
    dtype: flags.Dtype = None,
    device: flags.Device = None,
    batch_tokens: flags.BatchTokens = 4096,
    columns: flags.Map = None,
    source: flags.Source = None,
    revision: flags.Revision = None,
    skip_bad_rows: flags.SkipBadRows = False,
    cache: flags.Cache = None,
    max_cost: flags.MaxCost = None,
    retry_unscored: flags.Retry = False,
    engine: flags.Engine = None,
    choices: flags.Choices = None,
    form: flags.Format = Form.TABLE,
) -> None:
    """Draw n answers to every question, let scorers pick, and rate what they picked.

    Samples are drawn once and read by all scorers; what is finished is not computed again.
    """
    if (policy is None) == (samples is None):
        raise UsageError("best-of-n: name a policy (-p), or a file of --samples; one of the two")
    if samples is not None and policy_context != "none":
        raise UsageError(
            f"--policy-context {policy_context}: the answers of --samples are there already; name "
            "a policy (-p), or leave it out"
        )
    size = 16 if n is None else n
    check_number(size)
    wanted = _numbers(ks) if ks is not None else None
    if wanted and (policy is not None or n is not None):
        check_sizes(wanted, size)
    if picture is not None:
        check_picture(picture)
    settings = flags.make_settings(
        seed, dtype, device, batch_tokens, cache=cache, max_cost=max_cost
    )
    loading = LoadOptions(source, revision, parse_columns(columns or []), skip_bad_rows)
    pairs = load_benchmark(
        benchmark, split=split, mirrored=mirrors, limit=limit, seed=seed, options=loading
    )
    if contrast:
        check_mirrored(pairs)
    if choices is not None:
        past = load_benchmark(choices, split="all", options=replace(loading, source=None)).pairs
        pairs = pairs.with_history(past)
    how = Options(settings, retry_unscored, engine)
    plan_cells(scorer, context, pairs, how)  # a spec that is wrong costs no sample
    qualities = [build_quality(spec, settings) for spec in dict.fromkeys(quality)]
    for one in qualities:
        one.check(pairs.rows)
    ledger = ledger_of(settings)
    with bars(ledger.line) as shown:
        if policy is not None:
            who = build_policy(policy, settings)
            told = shown_to_policy(build_context(policy_context, settings), pairs, seed)
            named = who.spec if told is None else f"{who.spec} shown {policy_context}"
            named = named if seed == 0 else f"{named} seed {seed}"
            bar = shown.start(f"sampling {named}")
            drawn = draw_samples(who, pairs, size, told, bar, named=named)
            file = f"{slug(named)}-{drawn.content[:8]}.jsonl"
            drawn.save(output / slug(f"{pairs.name} samples") / file)
        else:
            assert samples is not None
            drawn = load_samples(samples, pairs, n)
        found = best_of_n(
            pairs, drawn, scorer, context, qualities, ks=wanted, contrast=contrast,
            root=output, options=how, start=shown.start,
        )  # fmt: skip
    if said := ledger.line():
        err.print(f"endpoints: {said}", highlight=False)
    show(best_of_tables(found), form, found.document())
    if picture is not None:
        plot_best_of(found, picture)


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise UsageError(f"--ks {text}: expected whole numbers such as 1,2,8")
    return [int(part) for part in parts]
