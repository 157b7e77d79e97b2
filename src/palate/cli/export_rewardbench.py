"""palate export rewardbench: pairs as a file that RewardBench's own program scores."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from palate.answers.scores.rewardbench import FIELDS, rewardbench_lines
from palate.benchmarks import need_pairs
from palate.cli import options as flags
from palate.cli.completion import named
from palate.cli.console import bars, err, show_text
from palate.cli.data_options import LoadingAnyLayout
from palate.cli.flatten import flatten_options
from palate.contexts import GROUP as CONTEXTS
from palate.contexts import build_context
from palate.data import need_own_lines, write_lines
from palate.evaluation import make_rows
from palate.session import Session


@flatten_options
def export_rewardbench(
    benchmark: Annotated[str, flags.benchmark_option(help="Benchmark or file.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File of lines, .jsonl.")],
    *,
    context: Annotated[
        str, named(CONTEXTS)(rich_help_panel="What is run", help="What prompts show of the user.")
    ] = "none",
    loading: LoadingAnyLayout,
    seed: flags.Seed = 0,
    cache: flags.Cache = None,
    max_cost: flags.MaxCost = None,
) -> None:
    """Write pairs as a file that RewardBench's own program reads and scores.

    Its `…_outputs.jsonl` is what the scorer precomputed:FILE reads.
    """
    need_own_lines(output, FIELDS)
    settings = flags.make_settings(seed)
    (pairs,) = loading.load_all([benchmark], seed)
    need_pairs(pairs.rows, pairs.name)
    with Session(cache=cache, max_cost=max_cost) as session, bars(session.ledger.progress):
        rows = make_rows(pairs, build_context(context, session, settings), seed=seed)
        written = write_lines(output, rewardbench_lines(rows))
        spent = session.ledger.line()
    if spent:
        err.print(f"endpoints: {spent}", highlight=False)
    left_out = (
        f", {len(rows) - written:,} left out without a third user" if written < len(rows) else ""
    )
    show_text(
        f"{output}: {written:,} pairs of {pairs.name} under {context}{left_out}\n"
        f"score:  rewardbench --model MODEL --dataset {quote(str(output))} --load_json"
    )
