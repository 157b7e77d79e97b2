"""palate score: every response's score, in a file that other tools and palate itself read."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from palate.answers.scores.responses import FIELDS, need_scores, response_lines
from palate.cli import options as flags
from palate.cli.compute_options import ComputingLocally
from palate.cli.console import bars_of, show_text
from palate.cli.data_options import LoadingAnyLayout
from palate.cli.flatten import flatten_options
from palate.data import need_own_lines, write_lines
from palate.errors import UnscoredError
from palate.evaluation import BoundScorer, Work
from palate.reports import most_common


@flatten_options
def score(
    benchmark: Annotated[str, flags.benchmark_option(help="Benchmark or file.")],
    scorer: flags.OneScorer,
    output: Annotated[Path, typer.Option("-o", "--output", help="File of lines, .jsonl.")],
    *,
    context: flags.Contexts = ["none"],  # noqa: B006 - typer copies it
    loading: LoadingAnyLayout,
    computing: ComputingLocally,
) -> None:
    """Write every response's score under the contexts into a file.

    Rows without a choice are scored too. The scorer precomputed:FILE reads the file.
    """
    need_own_lines(output, FIELDS)
    settings = computing.settings()
    (pairs,) = loading.load_all([benchmark], computing.seed)
    journals = output.with_name(f".{output.name}.journals")
    reasons: Counter[str | None] = Counter()
    with computing.session() as session, bars_of(session.ledger) as shown:
        work = Work(session, settings, journals, computing.retry_unscored, shown.start)
        bound = (BoundScorer.of(scorer, pairs, each, work) for each in context)
        jobs = {job.context.spec: job for job in bound}
        for job in jobs.values():
            need_scores(job)

        def counted() -> Iterator[dict[str, Any]]:
            for line in chain.from_iterable(map(response_lines, jobs.values())):
                reasons.update(line["reasons"])
                yield line

        write_lines(counted(), output)
    shutil.rmtree(journals)
    scored = reasons.pop(None, 0)
    without = {str(reason): n for reason, n in reasons.items()}
    unscored = f"; unscored: {most_common(without, 'responses')}" if without else ""
    show_text(f"{output}: {scored:,} scores of {pairs.name}{unscored}")
    if not scored:
        raise UnscoredError(f"{scorer}: nothing was scored")
