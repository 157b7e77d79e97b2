"""palate score and replies: scores as a file that others read, and what a batch gave back."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from palate.answers.scores import FIELDS, need_scores, response_lines
from palate.cli import options as flags
from palate.cli.console import show_text
from palate.cli.declare import argument, option
from palate.cli.options import ComputingLocally, LoadingAnyLayout
from palate.data import need_own_lines, write_lines
from palate.engines import ReplyCache, keep_replies
from palate.errors import UnscoredError
from palate.evaluation import BoundScorer, Work
from palate.reports import most_common


def score(
    benchmark: str = flags.benchmark(..., "Benchmark or file."),
    scorer: str = flags.SCORER,
    output: Path = option(..., "File of lines, .jsonl.", "-o", "--output"),
    *,
    context: list[str] = flags.CONTEXTS,
    loading: LoadingAnyLayout,
    computing: ComputingLocally,
) -> None:
    """Write every response's score under the contexts into a file.

    Rows without a choice are scored too. The scorer precomputed:FILE reads the file.
    """
    need_own_lines(output, FIELDS)
    journals = output.with_name(f".{output.name}.journals")
    reasons: Counter[str | None] = Counter()
    with computing.on([benchmark], loading, journals) as ((pairs,), how):
        work = Work.of(**how)
        bound = (BoundScorer.of(scorer, pairs, spec, work) for spec in context)
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


def keep(
    files: list[Path] = argument(..., "What batches gave back.", metavar="FILE"),
    cache: Path = option(..., "The folder that was named beside --requests."),
) -> None:
    """Keep the replies of batches, whose requests evaluate wrote.

    Requests without a reply are counted by reason.
    """
    replies = ReplyCache(cache.expanduser())
    replies.check("--cache")
    count, lacking = keep_replies(files, replies)
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in lacking.most_common())
    show_text(f"kept in {cache}: {count:,}; without a reply: {reasons or 'none'}")
