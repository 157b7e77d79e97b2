"""From pairs and a context to slates: the one place where a pair's label is taken off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, overload

import numpy as np

from palate.benchmarks import PairSet
from palate.errors import BenchmarkError
from palate.records import (
    Case,
    Context,
    Message,
    Others,
    PreferencePair,
    Shown,
    Slate,
    User,
    candidate_order,
)

Whose = Callable[[str], str | None]
"""From a user's id to the key a scorer finds in the slate."""


def nobody(user_id: str) -> str | None:
    """Say nothing of the user: what every scorer gets that keeps no state."""
    del user_id
    return None


class Row(NamedTuple):
    """A pair, the slate a contestant gets of it, and where the chosen response stands in it."""

    pair: PreferencePair
    slate: Slate
    chosen_position: int
    shown: Shown


class Rows(Sequence[Row]):
    """The rows of a benchmark under a context, each built when it is asked for.

    What summaries need of every row is noted when it is first built, in 17 bytes a row.
    """

    def __init__(self, pairs: PairSet, context: Context, seed: int, whose: Whose) -> None:
        self.pairs, self.context, self.seed, self.whose = pairs.pairs, context, seed, whose
        # Where nothing is shown nobody need be gathered.
        self._others = {} if context.blind else pairs.others(seed)
        n = len(self.pairs)
        self._chosen = np.full(n, -1, dtype=np.int8)
        self.parts = np.zeros(n, dtype=np.int32)
        """Parts shown of the user."""
        self.own_words = np.zeros(n, dtype=np.int32)
        self.leaks_dropped = np.zeros(n, dtype=np.int32)
        self.shortfall_words = np.zeros(n, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.pairs)

    @overload
    def __getitem__(self, row: int) -> Row: ...
    @overload
    def __getitem__(self, row: slice) -> list[Row]: ...
    def __getitem__(self, row: int | slice) -> Row | list[Row]:
        """Return one row, or a list of some."""
        at = range(len(self))[row]
        if isinstance(at, range):
            return [self[k] for k in at]
        pair = self.pairs[at]
        shown = self._shown(pair)
        self.parts[at], self.own_words[at] = len(shown.parts), shown.own_words
        self.leaks_dropped[at] = shown.leaks_dropped
        self.shortfall_words[at] = shown.shortfall_words
        slate = Slate(
            question=(Message(role="user", content=pair.question),),
            shown=shown.parts,
            candidates=self.candidates(at),
            user=self.whose(pair.user_id),
        )
        return Row(pair, slate, self.chosen_position(at), shown)

    def prepare(self) -> None:
        """Let the context do at once what would be costly row by row."""
        prepare = getattr(self.context, "prepare", None)
        if prepare is None or self.context.blind:
            return
        prepare(
            Case(pair, others.users[pair.user_id], others)
            for pair in self.pairs
            for others in (self._others[pair.subset],)
        )

    def id(self, row: int) -> str:
        """Return the pair's id."""
        return self.pairs[row].id

    def slate(self, row: int) -> Slate:
        """Return the row's slate."""
        return self[row].slate

    def bare(self, row: int) -> Slate:
        """Return the row's question and responses: nothing shown, and no user."""
        question = (Message(role="user", content=self.pairs[row].question),)
        return Slate(question=question, candidates=self.candidates(row))

    def candidates(self, row: int) -> tuple[str, ...]:
        """Return the two responses in the slate's order."""
        pair = self.pairs[row]
        first = self.chosen_position(row) == 0
        return (pair.chosen, pair.rejected) if first else (pair.rejected, pair.chosen)

    def chosen_position(self, row: int) -> int:
        """Return where the chosen response stands."""
        if self._chosen[row] < 0:
            pair = self.pairs[row]
            order = candidate_order(pair.question, pair.chosen, pair.rejected, self.seed)
            self._chosen[row] = order.index(pair.chosen)
        return int(self._chosen[row])

    def _shown(self, pair: PreferencePair) -> Shown:
        if self.context.blind:
            return self.context.shown(pair, User(id=pair.user_id), Others({}, {}, self.seed))
        others = self._others[pair.subset]
        return self.context.shown(pair, others.users[pair.user_id], others)


def make_rows(pairs: PairSet, context: Context, *, seed: int, whose: Whose = nobody) -> Rows:
    """Show each pair's part of the user; raises `BenchmarkError` where there is nothing to show."""
    if not context.blind:
        _refuse_without_text(pairs, context)
    return Rows(pairs, context, seed, whose)


NAMES = {
    "posts": "profiles",
    "choices": "past choices (rows of the split adapt, or another file of them)",
    "aspects": "rubric aspects",
}


def _refuse_without_text(pairs: PairSet, context: Context) -> None:
    there = {
        "posts": lambda: pairs.has_profiles,
        "choices": lambda: bool(pairs.history),
        "aspects": lambda: any(pair.rubric_aspects for pair in pairs.pairs),
    }
    needs = getattr(context, "needs", ())
    if needs and not any(there[need]() for need in needs):
        lacks = " and no ".join(NAMES[need] for need in needs)
        raise BenchmarkError(f"{pairs.name} has no {lacks}, so there is no context {context.spec}")
