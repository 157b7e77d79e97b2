"""From pairs and a context to slates: the one place where a pair's label is taken off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from palate.benchmarks import PairSet
from palate.errors import BenchmarkError
from palate.records import (
    Context,
    Message,
    PreferencePair,
    Shown,
    Slate,
    candidate_order,
    user_key,
)


class Row(NamedTuple):
    """A pair, the slate a contestant gets of it, and where the chosen response stands in it."""

    pair: PreferencePair
    slate: Slate
    chosen_position: int
    shown: Shown


def make_rows(pairs: PairSet, context: Context, *, seed: int, needs_user: bool) -> list[Row]:
    """Show each pair's part of the user; raises `BenchmarkError` where there is nothing to show."""
    if not context.blind:
        _refuse_without_text(pairs, context)
    return list(_rows(pairs, context, seed, needs_user))


def _rows(pairs: PairSet, context: Context, seed: int, needs_user: bool) -> Iterator[Row]:
    others = pairs.others(seed)
    for pair in pairs.pairs:
        neighbours = others[pair.subset]
        shown = context.shown(pair, neighbours.users[pair.user_id], neighbours)
        candidates = candidate_order(pair.question, pair.chosen, pair.rejected, seed)
        slate = Slate(
            question=(Message(role="user", content=pair.question),),
            shown=shown.parts,
            candidates=candidates,
            user=user_key(pair.user_id) if needs_user else None,
        )
        yield Row(pair, slate, candidates.index(pair.chosen), shown)


def _refuse_without_text(pairs: PairSet, context: Context) -> None:
    if context.spec.startswith("profile") and not pairs.has_profiles:
        raise BenchmarkError(f"{pairs.name} has no profiles, so there is no context {context.spec}")
    if context.spec.startswith("rubric") and not any(p.rubric_aspects for p in pairs.pairs):
        raise BenchmarkError(f"{pairs.name} has no rubric aspects, so there is no context rubric")
