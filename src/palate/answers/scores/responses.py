"""Scores of every response of a benchmark, of rows without a choice too, as lines of a file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from palate.answers.scores.slates import TextRows
from palate.errors import UsageError
from palate.evaluation import BoundScorer, beside, combined, need_replies, void_reason
from palate.records import Scores

FIELDS = ("id", "context", "key", "responses", "scores", "reasons")


def need_scores(job: BoundScorer) -> None:
    """Raise `UsageError` for a scorer that does not give a prompt's response one number."""
    if job.judges or job.info.pairs_only:
        raise UsageError(f"{job.spec}: a judge compares two responses and scores none alone")
    if job.info.needs_user:
        raise UsageError(
            f"{job.spec}: keeps a state for each user, and a line's key does not say whose; "
            "palate evaluate tells its states apart"
        )


def response_lines(job: BoundScorer) -> Iterator[dict[str, Any]]:
    """Yield a line of each row: decided rows and questions, then rows that their users call ties.

    `key` is the hash of the prompt as the context gives it, before any cut to a model's window.
    Raises `EndpointError` where an endpoint did not answer.
    """
    yield from _lines(job)
    rated = job.pairs.undecided_to_rate  # apart, since `palate evaluate` shows them other strangers
    ids = {row.id for row in rated}
    others = (row for row in (*job.pairs.undecided, *job.pairs.unrated) if row.id not in ids)
    for ties in (rated, tuple(others)):
        if ties:
            yield from _lines(beside(job, ties))


def _lines(job: BoundScorer) -> Iterator[dict[str, Any]]:
    rows, name = job.rows, f"{job.spec} {job.context.spec}"
    asked = (rows.questions[row // rows.draws] for row in range(len(rows)))
    wide = TextRows(rows, [question.view.responses for question in asked])
    identity = {"rows": job.pairs.content_hash, "revision": job.pairs.revision}
    progress = job.work.start(name)
    with job.computed(wide, "responses", progress, identity, name=name) as (_, passes, _):
        need_replies(job.spec, passes, "rows")
        for row, texts in enumerate(wide.texts):
            why = void_reason(job, row, passes, row)
            scores = Scores.unscored(len(texts), why) if why else combined(job, passes, row)
            values = [None if it is None or not math.isfinite(it) else it for it in scores.values]
            reasons = [
                None if value is not None else scores.reason(k) or "no score"
                for k, value in enumerate(values)
            ]
            key = rows.slate(row).prompt_key
            line = rows.id(row), job.context.spec, key, list(texts), values, reasons
            yield dict(zip(FIELDS, line, strict=True))
