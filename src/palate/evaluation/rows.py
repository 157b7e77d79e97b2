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
    user_key,
)


class Keys(NamedTuple):
    """What a slate tells a scorer with a state per user: opaque keys."""

    user: str | None = None
    """Whose state the row is scored with."""
    excluded: tuple[str, ...] = ()
    """Where third users' states are read: who is none, sorted."""
    no_stranger: bool = False
    """True where a third user's state is to be read and there is no (further) third user."""


Whose = Callable[[PreferencePair, int], Keys]
"""From a row and the number of a draw to the keys in its slate."""


def nobody(pair: PreferencePair, draw: int = 0) -> Keys:
    """Say nothing of the user: what every scorer gets that keeps no state."""
    del pair, draw
    return Keys()


def own_state(pair: PreferencePair, draw: int = 0) -> Keys:
    """Name the row's own user."""
    del draw
    return Keys(user_key(pair.user_id))


class Row(NamedTuple):
    """A pair, the slate a contestant gets of it, and where the chosen response stands in it."""

    pair: PreferencePair
    slate: Slate
    chosen_position: int
    shown: Shown


class Rows(Sequence[Row]):
    """The rows of a benchmark under a context, each built when it is asked for.

    Where several strangers are drawn for a pair it stands in as many rows, one after another: row k
    is draw `k % draws` of pair `k // draws`. What summaries need of every row is noted when it is
    first built, in 18 bytes a row.
    """

    def __init__(
        self, pairs: PairSet, context: Context, seed: int, whose: Whose, state_draws: int = 1
    ) -> None:
        self.pairs, self.context, self.seed, self.whose = pairs.pairs, context, seed, whose
        self._state_draws = state_draws
        text_draws: int = getattr(context, "draws", 1)
        self.draws = text_draws * state_draws
        # Where nothing is shown nobody need be gathered.
        others = {} if context.blind else pairs.others(seed)
        self._others = {
            name: [known.at_draw(draw) for draw in range(text_draws)]
            for name, known in others.items()
        }
        self._chosen = np.full(len(self.pairs), -1, dtype=np.int8)
        n = len(self)
        self.parts = np.zeros(n, dtype=np.int32)
        """Parts shown of the user."""
        self.own_words = np.zeros(n, dtype=np.int32)
        self.leaks_dropped = np.zeros(n, dtype=np.int32)
        self.shortfall_words = np.zeros(n, dtype=np.int32)
        self.no_stranger = np.zeros(n, dtype=np.bool_)
        """True where a text or a state is to be a third user's and there is none: unscored."""

    def __len__(self) -> int:
        return len(self.pairs) * self.draws

    @overload
    def __getitem__(self, row: int) -> Row: ...
    @overload
    def __getitem__(self, row: slice) -> list[Row]: ...
    def __getitem__(self, row: int | slice) -> Row | list[Row]:
        """Return one row, or a list of some."""
        at = range(len(self))[row]
        if isinstance(at, range):
            return [self[k] for k in at]
        pair, draw = self.pairs[at // self.draws], at % self.draws
        shown = self._shown(pair, draw // self._state_draws)
        self.parts[at], self.own_words[at] = len(shown.parts), shown.own_words
        self.leaks_dropped[at] = shown.leaks_dropped
        self.shortfall_words[at] = shown.shortfall_words
        keys = self.whose(pair, draw % self._state_draws)
        self.no_stranger[at] = shown.no_stranger or keys.no_stranger
        slate = Slate(
            question=(Message(role="user", content=pair.question),),
            shown=shown.parts,
            candidates=self.candidates(at),
            user=keys.user,
            excluded=keys.excluded,
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
            for others in self._others[pair.subset]
        )

    def id(self, row: int) -> str:
        """Return the pair's id, and from the second draw on its number."""
        name, draw = self.pairs[row // self.draws].id, row % self.draws
        return f"{name}#{draw}" if draw else name

    def slate(self, row: int) -> Slate:
        """Return the row's slate."""
        return self[row].slate

    def bare(self, row: int) -> Slate:
        """Return the row's question and responses: nothing shown, and no user."""
        pair = self.pairs[row // self.draws]
        question = (Message(role="user", content=pair.question),)
        return Slate(question=question, candidates=self.candidates(row))

    def candidates(self, row: int) -> tuple[str, ...]:
        """Return the two responses in the slate's order."""
        pair = self.pairs[row // self.draws]
        first = self.chosen_position(row) == 0
        return (pair.chosen, pair.rejected) if first else (pair.rejected, pair.chosen)

    def chosen_position(self, row: int) -> int:
        """Return where the chosen response stands."""
        at = row // self.draws
        if self._chosen[at] < 0:
            pair = self.pairs[at]
            order = candidate_order(pair.question, pair.chosen, pair.rejected, self.seed)
            self._chosen[at] = order.index(pair.chosen)
        return int(self._chosen[at])

    def _shown(self, pair: PreferencePair, draw: int) -> Shown:
        if self.context.blind:
            return self.context.shown(pair, User(id=pair.user_id), Others({}, {}, self.seed))
        others = self._others[pair.subset][draw]
        return self.context.shown(pair, others.users[pair.user_id], others)


def make_rows(
    pairs: PairSet, context: Context, *, seed: int, whose: Whose = nobody, state_draws: int = 1
) -> Rows:
    """Show each pair's part of the user; raises `BenchmarkError` where there is nothing to show.

    `state_draws` is how many third users' states `whose` gives for a row, one after another.
    """
    if not context.blind:
        _refuse_without_text(pairs, context)
    return Rows(pairs, context, seed, whose, state_draws)


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
