"""Pairs that are not evaluated: they set the unit of relative weights, or choose the weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from palate.benchmarks import Dataset
from palate.benchmarks.dataset import as_mirrored
from palate.errors import UsageError
from palate.records import PreferencePair
from palate.seeding import shuffled

PAIRS = 200
"""Pairs that are drawn."""
LEAST = 20
"""Fewer are no set of their own; the next source is taken."""
SHARE = 4
"""Where nothing else is there, one in so many rows is set aside."""


class Split(NamedTuple):
    """The rows that are evaluated, and those that are not."""

    evaluated: Dataset
    reserved: Dataset | None = None
    source: Literal["adapt", "left out", "set aside"] | None = None


def split(
    pairs: Dataset, seed: int, *, relative: bool, reads_choices: bool, reads_posts: bool = False
) -> Split:
    """Reserve pairs of questions that are not evaluated, 200 at most.

    Earlier choices come first, unless some score reads them; relative weights then take rows that a
    limit or mirrors left out, or else whole questions out of the evaluated ones. Where users' posts
    are shown, rows without any reserve nothing.

    Raises `UsageError` where there are too few rows to set any aside.
    """
    questions = {row.key for row in pairs.rows}
    whole = (*pairs.everyone, *pairs.rows)

    def not_evaluated(rows: Sequence[object]) -> list[PreferencePair]:
        return [
            row
            for row in rows
            if isinstance(row, PreferencePair)
            and not row.tie
            and row.key not in questions
            and (row.profile or not reads_posts)
        ]

    past = [] if reads_choices else not_evaluated(pairs.history)
    if len(past) >= LEAST:
        drawn = replace(pairs, rows=_drawn(past, seed), everyone=whole, history=())
        return Split(pairs, as_mirrored(drawn), "adapt")
    if not relative:
        return Split(pairs)
    left = not_evaluated(pairs.everyone)
    if len(left) >= LEAST:
        drawn = replace(pairs, rows=_drawn(left, seed), everyone=whole)
        return Split(pairs, as_mirrored(drawn), "left out")
    aside: set[str] = set()
    wanted = min(PAIRS, len(pairs.rows) // SHARE)
    for question in shuffled(sorted(questions), "set aside", seed):
        if sum(row.key in aside for row in pairs.rows) >= wanted:
            break
        aside.add(question)
    if not aside or aside == questions:
        raise UsageError(
            f"{pairs.name}: {len(pairs.rows)} rows of {len(questions)} questions leave none to set "
            "the unit of relative weights; give more rows, or absolute weights (without --relative)"
        )
    evaluated, reserved = (
        tuple(row for row in pairs.rows if (row.key in aside) is which) for which in (False, True)
    )
    return Split(
        as_mirrored(replace(pairs, rows=evaluated, everyone=whole)),
        as_mirrored(replace(pairs, rows=reserved, everyone=whole)),
        "set aside",
    )


def _drawn(rows: Sequence[PreferencePair], seed: int) -> tuple[PreferencePair, ...]:
    # By content: which are drawn must not depend on the file's order.
    unique = {(row.content, row.id): row for row in rows}
    return tuple(unique[key] for key in shuffled(sorted(unique), "reserved", seed)[:PAIRS])
