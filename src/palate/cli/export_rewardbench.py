"""palate export rewardbench: pairs as a file that RewardBench's own program scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from palate.cli import options as flags
from palate.cli.console import bars_of, show_text
from palate.cli.data_options import LoadingAnyLayout
from palate.cli.flatten import flatten_options
from palate.contexts import build_context
from palate.data import need_own_lines, write_lines
from palate.errors import BenchmarkError
from palate.evaluation import ContextRows, make_rows
from palate.prompts import as_text, render
from palate.records import PreferencePair
from palate.session import Session

FIELDS = ("prompt", "chosen", "rejected", "id", "key", "subset")
ROLES = ("user", "assistant")


@flatten_options
def export_rewardbench(
    benchmark: Annotated[str, flags.benchmark_option(help="Benchmark or file.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File of lines, .jsonl.")],
    *,
    context: flags.OneContext = "none",
    loading: LoadingAnyLayout,
    seed: flags.Seed = 0,
    cache: flags.Cache = None,
    max_cost: flags.MaxCost = None,
) -> None:
    """Write pairs as a file that RewardBench's own program reads and scores.

    The scorer precomputed:FILE reads what that program writes, its `…_outputs.jsonl`.
    """
    need_own_lines(output, FIELDS)
    (pairs,) = loading.load_all([benchmark], seed)
    decided = pairs.pairs
    with Session(cache=cache, max_cost=max_cost) as session, bars_of(session.ledger):
        view = build_context(context, session, flags.make_settings(seed))
        rows = make_rows(pairs, view, seed=seed)
        write_lines(_lines(rows, decided), output)
    without = int(rows.no_stranger.sum())
    left_out = f"; left out, without a third user: {without:,}" if without else ""
    show_text(
        f"{output}: {len(rows) - without:,} pairs of {pairs.name} under {view.spec}{left_out}\n"
        f"score:  rewardbench --model MODEL --dataset {quote(str(output))} --load_json"
    )


def _lines(rows: ContextRows, pairs: Sequence[PreferencePair]) -> Iterator[dict[str, Any]]:
    """Yield each pair, its texts as whole conversations.

    Their program takes a bare text beside a prompt of messages alone, and with `datasets` from 4 on
    it takes none. It reads a turn's place for its role.
    """
    rows.prepare()
    for row in range(len(rows)):
        slate, pair = rows.slate(row), pairs[row // rows.draws]
        if rows.no_stranger[row]:
            continue
        prompt = render(slate.question, slate.shown)
        turns = [turn.model_dump() for turn in prompt]
        if any(turn.role != ROLES[k % 2] for k, turn in enumerate(prompt)):
            raise BenchmarkError(
                f"row {rows.id(row)!r}: its turns are not user, assistant, user …, the only ones "
                "that RewardBench reads; leave the row out"
            )
        texts = pair.chosen, pair.rejected
        closed = ([*turns, {"role": "assistant", "content": text}] for text in texts)
        line = as_text(prompt), *closed, rows.id(row), slate.prompt_key, pair.subset
        yield dict(zip(FIELDS, line, strict=True))
