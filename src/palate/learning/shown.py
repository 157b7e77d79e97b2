"""Rows of a training run with what is shown of their users, as evaluation's reader gives them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from palate.benchmarks import Dataset, EvaluatedVotes, opposite_votes
from palate.contexts import build_context
from palate.contexts.rows import ContextRows, make_rows
from palate.errors import BenchmarkError, DataError, UsageError
from palate.learning.encoding import keep_users
from palate.records import Choice, Context, Part, PreferencePair, Question, Settings, choices_of
from palate.records.arguments import grouped
from palate.seeding import unit
from palate.session import Session

Contexts = str | Context | Iterable[str | Context]


class ShownPair(NamedTuple):
    """A pair, and what the model reads of its user."""

    pair: PreferencePair
    parts: tuple[Part, ...] = ()


class ShownOptions(NamedTuple):
    """What is shown of users in training: `contexts=`, `shown_nothing=`, `opposite=`."""

    contexts: tuple[str | Context, ...] = ()
    """Each pair stands once under each of them; none shows nothing."""
    nothing: float = 0.0
    """Share of the pairs that are shown nothing."""
    opposite: bool = False
    """Whether each pair that others voted on oppositely brings such a vote with it."""

    def check(self, method: str, readers: Callable[[], Sequence[str]]) -> None:
        """Raise `UsageError` for what the method cannot do, or what is out of range."""
        if self.contexts and method not in (can := readers()):
            others = f"contexts go with {' and '.join(can)}"
            raise UsageError(f"{method} reads nothing of the user; {others}")
        for name, given in (("shown-nothing", self.nothing), ("opposite", self.opposite)):
            if given and not self.contexts:
                raise UsageError(f"--{name}: says how a context is shown; add one, as -c profile:5")
        if not 0 <= self.nothing < 1:
            share = "a share of the rows, 0 or more, below 1"
            raise UsageError(f"--shown-nothing {self.nothing:g}: expected {share}")


@dataclass(frozen=True)
class ShownRows:
    """The rows of a training run, under each of its contexts."""

    pairs: tuple[PreferencePair, ...]
    rows: Sequence[ContextRows] = ()
    """Of each context; none where nothing is shown."""
    nothing: float = 0.0
    seed: int = 0
    opposite: Sequence[int] = ()
    """Places of pairs that stand there once more."""

    @classmethod
    def of(
        cls,
        data: Dataset,
        leave_out: Collection[str],
        options: ShownOptions,
        session: Session,
        settings: Settings,
    ) -> ShownRows:
        """Read the rows of users that are not left out, as evaluation does.

        A user's other rows are their past choices, where they are earlier. Users who are left out
        are nobody's stranger. Raises `UsageError` for an oracle, and for two contexts of one name,
        and `BenchmarkError` where there is nothing to show, or no opposite vote.
        """
        built = [build_context(text, session, settings) for text in options.contexts]
        for k, context in enumerate(built):
            if context.oracle:
                why = "is an oracle: it shows gold, and no model is trained on that"
                raise UsageError(f"context {context.spec} {why}")
            if context.spec in [other.spec for other in built[:k]]:
                raise UsageError(f"context {context.spec} is named twice")
        pairs, seed = tuple(keep_users(data.pairs, leave_out)), settings.seed
        known, before = replace(data, rows=pairs, everyone=(), history=pairs), ChoicesBefore(pairs)
        rows = [make_rows(known, each, seed=seed, chosen_before=before) for each in built]
        places = {pair.id: k for k, pair in enumerate(pairs)}
        opposite = opposite_votes(known, seed) if options.opposite else {}
        if options.opposite and not opposite:
            raise BenchmarkError(
                f"--opposite: {data.name} holds no mirrored couple: no two users chose oppositely "
                "between the same two responses"
            )
        again = [places[opposite[pair.id]] for pair in pairs if pair.id in opposite]
        return cls(pairs, rows, options.nothing, seed, again)

    @cached_property
    def examples(self) -> list[ShownPair]:
        """Each pair under each context, and behind them opposite votes once more."""
        every: list[ShownPair] = []
        for rows in self.rows:
            rows.prepare()
            of_context = [
                ShownPair(self.pairs[k // rows.draws], () if self._bare(k // rows.draws) else parts)
                for k, parts in enumerate(row.slate.shown for row in rows)
            ]
            every += of_context + [of_context[k * rows.draws] for k in self.opposite]
        return every or [ShownPair(pair) for pair in self.pairs]

    def _bare(self, k: int) -> bool:
        return unit("shown nothing", self.seed, self.pairs[k].id) < self.nothing

    def facts(self, parts: Sequence[int], cut: int) -> dict[str, Any]:
        """Return what was asked for, shown, left out; `DataError` where no row shows anything."""
        contexts, n = [rows.context.spec for rows in self.rows], sum(k > 0 for k in parts)
        if not contexts:
            return {}
        if not n:
            what = f"none of {len(parts)} rows has anything to show that fits"
            raise DataError(f"{', '.join(contexts)}: {what}")
        return {
            "contexts": contexts,
            "rows_shown": n,
            "parts_cut": cut,
            "shown_nothing": self.nothing,
            "opposite_votes": len(self.opposite) * len(self.rows),
            "leaks_dropped": sum(int(rows.leaks_dropped.sum()) for rows in self.rows),
            "later_posts": sum(rows.later_posts for rows in self.rows),
        }


class ChoicesBefore:
    """Of rows that are learnt from: what a row's user had chosen before it, as evaluation has it.

    A choice is earlier by its date, or where one of the user's rows has none, in the file. What
    tells how the row's own vote went is left out, as past choices of evaluated rows are.
    """

    def __init__(self, pairs: Iterable[PreferencePair]) -> None:
        self._of_user = grouped(pairs, lambda pair: pair.user_id)

    def __call__(self, row: Question) -> tuple[Choice, ...]:
        """Return them, oldest first."""
        earlier, asked = self._of_user.get(row.user_id, []), row.instant
        if asked is not None and all(pair.instant is not None for pair in earlier):
            earlier = [p for p in earlier if p.instant is not None and p.instant.is_before(asked)]
        else:
            earlier = earlier[: [pair.id for pair in earlier].index(row.id)]
        votes = EvaluatedVotes([row])
        untold = [pair for pair in earlier if not votes.told_by(pair)]
        return tuple(choices_of(untold).get(row.user_id, ()))
