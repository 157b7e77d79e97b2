"""palate evaluate: scorers × contexts × benchmarks, one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from palate.benchmarks import Dataset, LoadOptions, load_benchmark
from palate.cli import options as flags
from palate.cli.console import bars, err, show
from palate.cli.showing import first_prompt
from palate.comparison import (
    Cell,
    check_by,
    check_ratings,
    groups_of,
    plan_grid,
    ratings_of,
    run_grid,
)
from palate.data import parse_columns
from palate.engines.http import ledger_of
from palate.errors import EndpointError
from palate.evaluation import Options, with_shots
from palate.reports import Form, grid_tables, what_it_shows


def evaluate(
    benchmark: flags.Benchmarks,
    scorer: flags.Scorers,
    context: flags.Contexts = ["none"],  # noqa: B006 - typer copies it
    output: flags.Root = Path("runs"),
    split: flags.Split = None,
    mirrors: flags.Mirrors = None,
    limit: flags.Limit = None,
    seed: flags.Seed = 0,
    dtype: flags.Dtype = None,
    device: flags.Device = None,
    batch_tokens: flags.BatchTokens = 4096,
    attention: flags.Attention = None,
    columns: flags.Map = None,
    source: flags.Source = None,
    revision: flags.Revision = None,
    skip_bad_rows: flags.SkipBadRows = False,
    max_line: flags.MaxLine = 32,
    trust_remote_code: flags.Trust = False,
    cache: flags.Cache = None,
    max_cost: flags.MaxCost = None,
    retry_unscored: flags.Retry = False,
    engine: flags.Engine = None,
    choices: flags.Choices = None,
    shots: flags.Shots = None,
    repeats: flags.Repeats = 1,
    by: flags.By = None,
    target: flags.Against = flags.Target.PREFERENCE,
    strict: flags.Strict = False,
    form: flags.Format = Form.TABLE,
    dry_run: flags.DryRun = False,
) -> None:
    """Evaluate scorers, each shown what the contexts choose of the user.

    Repeat -b, -s and -c for a grid. What is finished is not computed again.
    """
    mapped = parse_columns(columns or [])
    settings = flags.make_settings(
        seed,
        dtype,
        device,
        batch_tokens,
        trust_remote_code,
        attention=attention,
        cache=cache,
        max_cost=max_cost,
    )
    how = Options(settings, retry_unscored, engine)
    loading = LoadOptions(source, revision, mapped, skip_bad_rows, int(max_line * 2**20))
    pair_sets = [
        load_benchmark(name, split=split, mirrored=mirrors, limit=limit, seed=seed, options=loading)
        for name in dict.fromkeys(benchmark)
    ]
    if choices is not None:
        past = load_benchmark(choices, split="all", options=replace(loading, source=None)).pairs
        pair_sets = [pairs.with_history(past) for pairs in pair_sets]
    for pairs in pair_sets:
        _say_what_was_left_out(pairs)
    for pairs in pair_sets:
        for grouping in by or []:
            check_by(grouping, pairs)
        if target is flags.Target.RATING:
            check_ratings(pairs)
    cells = plan_grid(pair_sets, with_shots(scorer, shots or [], repeats), context, how)
    if dry_run:
        _print_plan(cells, output, how)
        return
    ledger = ledger_of(settings)
    with bars(ledger.line) as shown:
        grid = run_grid(
            cells,
            root=output,
            options=how,
            progress_for=lambda cell: shown.start(f"{cell.scorer} · {cell.context}"),
        )
    if said := ledger.line():
        err.print(f"endpoints: {said}", highlight=False)
    if by:
        grid = replace(grid, groups=tuple(groups_of(grid.runs, by)))
    if target is flags.Target.RATING:
        grid = replace(grid, ratings=tuple(ratings_of(grid.runs, seed=seed)))
    show(grid_tables(grid), form, grid.document(), what_it_shows(grid))
    down = next((run for run in grid.runs if run.outages == run.summary.n_pairs), None)
    if down is not None:
        reasons = "; ".join(down.summary.unscored_reasons)
        raise EndpointError(
            f"{down.summary.scorer}: nothing was scored ({reasons}); run the same command again"
        )
    if strict and any(run.summary.unscored for run in grid.runs):
        raise typer.Exit(1)


def _say_what_was_left_out(pairs: Dataset) -> None:
    for error in pairs.bad_rows[:5]:
        err.print(f"left out: {error}", style="yellow", highlight=False, markup=False)
    if len(pairs.bad_rows) > 5:
        err.print(f"left out: {len(pairs.bad_rows) - 5} more bad rows", style="yellow")
    if pairs.history_left_out:
        said = f"{pairs.history_left_out} past choices that are evaluated pairs of the same user"
        err.print(f"{pairs.name}: left out: {said}", style="yellow", markup=False)
    if pairs.unknown_columns:
        names = ", ".join(pairs.unknown_columns)
        err.print(f"{pairs.name}: columns palate does not know, never shown: {names}", markup=False)


def _print_plan(cells: Sequence[Cell], output: Path, how: Options) -> None:
    for cell in cells:
        rows = len(cell.benchmark.pairs)
        times = f" × {cell.draws} draws" if cell.draws > 1 else ""
        fate = "no meaning: nothing shown" if cell.meaningless else f"{rows:,} rows{times}"
        typer.echo(f"{cell.benchmark.name}  {cell.scorer}  {cell.context}  {fate}")
    typer.echo(f"runs go under {output}/")
    first = next((cell for cell in cells if not cell.meaningless), None)
    if first is None:
        return
    typer.echo(f"\nthe first prompt of {first.scorer} under {first.context}:\n")
    typer.echo(first_prompt(first.benchmark, first.scorer, first.context, how.settings))
