"""From questions and a context to slates: the one place where a pair's label is taken off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from palate.benchmarks import Dataset
from palate.contexts.kinds import need_same
from palate.errors import BenchmarkError, UsageError
from palate.records import (
    Choice,
    Context,
    ContextInput,
    Lazy,
    Post,
    PreferencePair,
    Question,
    RowSource,
    Shown,
    Slate,
    User,
    UserPool,
    candidate_order,
    user_key,
)


class UserKeys(NamedTuple):
    """What a slate tells a scorer with a state per user: opaque keys."""

    user: str | None = None
    """Whose state the row is scored with."""
    excluded: tuple[str, ...] = ()
    """Where third users' states are read: who is none, sorted."""
    no_stranger: bool = False
    """True where a third user's state is to be read and there is no (further) third user."""


UserKeysFn = Callable[[Question, int], UserKeys]
"""From a row and the number of a draw to the keys in its slate."""
Lend = Callable[[ContextInput, Question], ContextInput]
"""From what a context is given to what it is given instead: `lend`, where a context has it."""
ChosenBefore = Callable[[Question], tuple[Choice, ...]]
"""From a row to what its user had chosen before it, oldest first."""


def no_user_keys(question: Question, draw: int = 0) -> UserKeys:
    """Say nothing of the user: what every scorer gets that keeps no state."""
    return UserKeys()


def own_user_keys(question: Question, draw: int = 0) -> UserKeys:
    """Name the row's own user."""
    return UserKeys(user_key(question.user_id))


class ContextRow(NamedTuple):
    """A question, a scorer's slate of it, and what it shows of the user."""

    question: Question
    slate: Slate
    shown: Shown


class ContextRows(Lazy[ContextRow]):
    """The rows of a benchmark under a context, each built when it is asked for.

    A row's candidates are the two responses of a pair, or all of a question's. Where several
    strangers are drawn for a question it stands in as many rows, one after another: row k is draw
    `k % draws` of question `k // draws`. What summaries need of every row is noted when it is first
    built, in 19 bytes a row.
    """

    def __init__(
        self,
        dataset: Dataset,
        context: Context,
        seed: int,
        user_keys: UserKeysFn,
        state_draws: int,
        live: LiveUsers,
        chosen_before: ChosenBefore | None = None,
    ) -> None:
        self.questions, self.context = dataset.rows, context
        self.seed, self.user_keys, self.state_draws = seed, user_keys, state_draws
        self._live, self._chosen_before = live.users, chosen_before
        self.draws: int = getattr(context, "draws", 1) * state_draws
        self._lend: Lend | None = getattr(context, "lend", None)
        # Where nothing is shown nobody need be gathered.
        self._pools = {} if context.empty else live.pools_of(dataset, seed)
        self._chosen = np.full(len(self.questions), -1, dtype=np.int8)
        n = len(self.questions) * self.draws
        super().__init__(n, self._row)
        self.parts = np.zeros(n, dtype=np.int32)
        """Parts shown of the user."""
        self.own_words = np.zeros(n, dtype=np.int32)
        self.leaks_dropped = np.zeros(n, dtype=np.int32)
        self.shortfall_words = np.zeros(n, dtype=np.int32)
        self.search_unmatched = np.zeros(n, dtype=np.bool_)
        self.lacking: dict[int, tuple[str, ...]] = {}
        """Of rows that lack a part: the kinds of what they lack."""
        self.no_stranger = np.zeros(n, dtype=np.bool_)
        """True where a text or a state is to be a third user's and there is none: unscored."""

    def _row(self, position: int) -> ContextRow:
        question, draw = self.questions[position // self.draws], position % self.draws
        given = self._input(question, draw // self.state_draws)
        chosen = self.context.shown(*given)
        self.parts[position], self.own_words[position] = len(chosen.parts), chosen.own_words
        self.leaks_dropped[position] = chosen.leaks_dropped
        if self._lend is not None and "posts" in getattr(self.context, "needs", ()):
            wrote = given.pool.users.get(given.user.id, given.user).posts
            self.leaks_dropped[position] += len(wrote) - len(given.user.posts)
        self.shortfall_words[position] = chosen.shortfall_words
        self.search_unmatched[position] = chosen.search_unmatched
        keys = self.user_keys(question, draw % self.state_draws)
        self.no_stranger[position] = chosen.no_stranger or keys.no_stranger
        if chosen.lacking and not chosen.no_stranger:
            self.lacking[position] = chosen.lacking
        slate = Slate(
            question=question.messages,
            shown=chosen.parts,
            candidates=self.candidates(position),
            user=keys.user,
            excluded=keys.excluded,
        )
        return ContextRow(question, slate, chosen)

    @property
    def n_lacking(self) -> dict[str, int]:
        """Of each kind the questions that lack it, under any of their draws."""
        places = {(at // self.draws, kind) for at, kinds in self.lacking.items() for kind in kinds}
        return dict(sorted(Counter(kind for _, kind in places).items()))

    def prepare(self) -> None:
        """Let the context do at once what would be costly row by row."""
        prepare = getattr(self.context, "prepare", None)
        if prepare is not None and not self.context.empty:
            draws = range(self.draws // self.state_draws)
            prepare(self._input(question, draw) for question in self.questions for draw in draws)

    @property
    def later_posts(self) -> int:
        """How many posts a context that shows posts is not given, for they are of a later day."""
        if self._lend is not None or "posts" not in getattr(self.context, "needs", ()):
            return 0
        return sum(len(row.profile) - len(earlier_posts(row)) for row in self.questions)

    def id(self, row: int) -> str:
        """Return the question's id, and from the second draw on its number."""
        name, draw = self.questions[row // self.draws].id, row % self.draws
        return f"{name}#{draw}" if draw else name

    def slate(self, row: int) -> Slate:
        """Return the row's slate."""
        return self[row].slate

    def bare(self, row: int) -> Slate:
        """Return the row's question and responses: nothing shown, and no user."""
        question = self.questions[row // self.draws].messages
        return Slate(question=question, candidates=self.candidates(row))

    def candidates(self, row: int) -> tuple[str, ...]:
        """Return the responses in the slate's order."""
        question = self.questions[row // self.draws]
        if not isinstance(question, PreferencePair):
            return candidate_order(question.key, question.responses, self.seed)
        texts = question.chosen, question.rejected
        return texts if self.chosen_position(row) == 0 else texts[::-1]

    def chosen_position(self, row: int) -> int:
        """Return where the chosen response of a pair stands."""
        place = row // self.draws
        if self._chosen[place] < 0:
            pair = self.questions[place]
            assert isinstance(pair, PreferencePair), "only a pair has a chosen response"
            order = candidate_order(pair.key, (pair.chosen, pair.rejected), self.seed)
            self._chosen[place] = order.index(pair.chosen)
        return int(self._chosen[place])

    def _input(self, question: Question, draw: int) -> ContextInput:
        gold = question.gold if self.context.oracle else None
        pool = self._pools.get(question.subset, NO_POOL)
        user = self._live.get(question.user_id)
        if user is None:
            user = pool.users.get(question.user_id, User(id=question.user_id))
            told: dict[str, object] = {"posts": earlier_posts(question), "traits": question.traits}
            if self._chosen_before is not None:
                told |= {"choices": self._chosen_before(question)}
            user = user.model_copy(update=told)
        row = ContextInput(question.view, user, pool.at(question.id, user.id, draw), gold)
        return row if self._lend is None else self._lend(row, question)

    def user_of(self, row: int) -> str:
        """Return whose part a row is shown; the mirror rows of a couple are of their own users."""
        question = self.questions[row // self.draws]
        own = self._lend is None or getattr(question, "mirror_of", None)
        return question.user_id if own else self._input(question, 0).user.id

    def of_pairs(self, pairs: Sequence[int]) -> SampledRows:
        """Return some pairs' rows, every draw of each."""
        draws = range(self.draws)
        return SampledRows(self, [pair * self.draws + draw for pair in pairs for draw in draws])


class SampledRows:
    """Rows at some places of others, prepared with these; as they are, or with nothing shown."""

    def __init__(
        self, rows: RowSource, places: Sequence[int], *, without_context: bool = False
    ) -> None:
        self._rows, self._places, self._bare = rows, places, without_context

    def __len__(self) -> int:
        return len(self._places)

    def prepare(self) -> None:
        """Do nothing: the others are prepared."""

    def id(self, row: int) -> str:
        """Return the row's id."""
        return self._rows.id(self._places[row])

    def slate(self, row: int) -> Slate:
        """Return the row's slate."""
        slate = self._rows.slate(self._places[row])
        return slate.without_context() if self._bare else slate

    def candidates(self, row: int) -> tuple[str, ...]:
        """Return the slate's candidates."""
        return self._rows.candidates(self._places[row])


def earlier_posts(question: Question) -> tuple[Post, ...]:
    """Return the profile's posts but for those whose date is not before that of the row.

    >>> posts = [Post(id=day, text="tea", date=day) for day in ("2026-02-28", "2026-03-01")]
    >>> row = Question(id="1", user_id="ann", text="Tea?", date="2026-03-01", profile=posts)
    >>> [post.id for post in earlier_posts(row)]
    ['2026-02-28']
    """
    asked, posts = question.instant, question.profile
    if asked is None:
        return posts
    return tuple(p for p in posts if p.instant is None or p.instant.is_before(asked))


NO_POOL = UserPool({})


class LiveUsers(NamedTuple):
    """Users given in the call: what they wrote and chose; in no pool, and nobody's stranger."""

    users: Mapping[str, User] = {}
    pool: UserPool | None = None
    """Among whom their strangers are drawn; by default the other users of the benchmark."""

    def pools_of(self, dataset: Dataset, seed: int) -> dict[str, UserPool]:
        """Return the pool of each subset."""
        if self.pool is not None:
            return dict.fromkeys(dataset.subsets, self.pool.without(self.users))
        return {name: p.without(self.users) for name, p in dataset.user_pools(seed).items()}

    def refuse(self, context: Context) -> None:
        """Raise `UsageError` for a user without what the context shows."""
        needs = [need for need in getattr(context, "needs", ()) if need != "aspects"]
        lacks = f"has no {' and no '.join(needs)}, so there is no context {context.spec}"
        for name, user in self.users.items():
            if needs and not any(map(user.has, needs)):
                raise UsageError(f"user {name!r} {lacks}")


NOBODY_LIVE = LiveUsers()


def make_rows(
    dataset: Dataset,
    context: Context,
    *,
    seed: int,
    user_keys: UserKeysFn = no_user_keys,
    state_draws: int = 1,
    live: LiveUsers = NOBODY_LIVE,
    chosen_before: ChosenBefore | None = None,
) -> ContextRows:
    """Show each question's part of its user.

    `state_draws` is how many third users' states `user_keys` gives for a row, one after another.
    `chosen_before` gives a row's past choices, where they are not all that the data set knows.
    Raises `BenchmarkError` where there is nothing to show, of a live user `UsageError`.
    """
    if not context.empty:
        live.refuse(context)
        if not live.users and not hasattr(context, "lend"):
            _refuse_without_text(dataset, context)
    return ContextRows(dataset, context, seed, user_keys, state_draws, live, chosen_before)


NAMES = {
    "posts": "profiles",
    "choices": "past choices (rows of the split adapt, or another file of them)",
    "aspects": "rubric aspects",
    "traits": "traits",
}


def _refuse_without_text(dataset: Dataset, context: Context) -> None:
    there = {
        "posts": lambda: any(row.profile for row in dataset.rows),
        "choices": lambda: bool(dataset.history),
        "aspects": lambda: any(row.gold.aspects for row in dataset.rows),
        "traits": lambda: any(row.traits for row in dataset.rows),
    }
    for part in getattr(context, "parts", (context,)):
        needs = [need.partition(":") for need in getattr(part, "needs", ())]
        if needs and not any(there[kind]() for kind, *_ in needs):
            lacks = f"{dataset.name} has no {' and no '.join(NAMES[kind] for kind, *_ in needs)}"
            raise BenchmarkError(f"{lacks}, so there is no context {context.spec}")
        for name in (name for *_, names in needs if names for name in names.split(",")):
            dataset.need_trait(name)
    need_same(dataset, getattr(context, "same", ""))
