"""Users: who they are, who mirrors whom, which third user is a row's stranger, and their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from copy import copy

from palate.errors import DataError, UsageError
from palate.records.arguments import grouped
from palate.records.dates import oldest_first
from palate.records.questions import (
    Choice,
    Post,
    PreferencePair,
    Question,
    Record,
    choices_of,
    normal_form,
)
from palate.seeding import digest

NO_STRANGER = "no stranger"
"""Why a row is unscored that is to be read as a third user's and has none."""
MOST_STRANGERS = 256
"""Third users that one row is judged by, at most."""
NOBODY = {
    *("-", "--", "?", "nan", "nat", "none", "null", "nil", "n/a", "#n/a", "<na>", "undefined"),
    *("[deleted]", "[removed]", "deleted", "[deleted user]", "unknown", "unspecified"),
    *("prefer not to say", "prefer not to answer", "rather not say", "anonymous", "undisclosed"),
    *("not specified", "not stated", "not applicable", "not available", "no answer", "don't know"),
}
PLACEHOLDER = re.compile(r"\$\{.*\}|\{\{.*\}\}|\{%.*%\}|%\{.*\}")
"""What a template or a platform should have filled in."""


class User(Record):
    """One person: an id, what they wrote, what they preferred, what they said of themselves."""

    id: str
    posts: tuple[Post, ...] = ()
    choices: tuple[Choice, ...] = ()
    traits: Mapping[str, str] = {}

    def has(self, need: str) -> bool:
        """Tell whether there are `posts`, `choices` or `traits`, or any of `traits:NAME,NAME`."""
        kind, _, names = need.partition(":")
        held = getattr(self, kind)
        if kind != "traits":
            return bool(held)
        return any(held.get(name, "").strip() for name in (names.split(",") if names else held))


KindsOf = Callable[[Mapping[str, User], str], Mapping[str, Hashable]]


class UserPool:
    """The users of one subset, as a context may know them, and among whom strangers are drawn.

    A user's posts are the union by post id over all their rows, oldest first; their choices are
    what they preferred before, in file order. `mirror_users` names, for each row of a mirrored
    couple, the user of the other row. A context gets the pool `at` one row.
    """

    def __init__(
        self, users: Mapping[str, User], mirror_users: Mapping[str, str] = {}, seed: int = 0
    ) -> None:
        self.users, self.mirror_users, self.seed = dict(users), dict(mirror_users), seed
        self.have_choices = any(user.choices for user in self.users.values())
        """True where any user's past choices are known."""
        self._row: tuple[str, str, int] | None = None
        self._having: tuple[str, ...] = ()
        self._kinds: dict[str, Mapping[str, Hashable]] = {}
        self._pools: dict[tuple[Hashable, ...], list[str]] = {}

    @classmethod
    def of(
        cls, questions: Iterable[Question], seed: int = 0, history: Iterable[PreferencePair] = ()
    ) -> UserPool:
        """Gather the users of these questions (one subset) and of these past choices.

        Of a past choice only the question, the two responses and whose it is are read.
        """
        questions, choices = list(questions), choices_of(history)
        rows = grouped(questions, lambda question: question.user_id)
        users = {
            name: User(
                id=name,
                posts=oldest_first(
                    {post.id: post for row in rows.get(name, ()) for post in row.profile}.values()
                ),
                choices=tuple(choices.get(name, ())),
                traits={of: it for row in rows.get(name, ()) for of, it in row.traits.items()},
            )
            for name in dict.fromkeys((*rows, *choices))
        }
        return cls(users, mirror_users_of(questions), seed)

    def without(self, users: Collection[str]) -> UserPool:
        """Return the pool without these users."""
        if not users:
            return self
        left = {name: user for name, user in self.users.items() if name not in users}
        return UserPool(left, self.mirror_users, self.seed)

    def at(self, row: str, user: str, draw: int = 0) -> UserPool:
        """Return the same users, as this user's row of this id meets them.

        `draw` says which of the row's strangers `stranger` gives, from 0.
        """
        made = copy(self)
        made._row = row, user, draw
        return made

    def having(self, *needs: str) -> UserPool:
        """Return the same users, whose `stranger` has all of this, whatever it is asked for."""
        made = copy(self)
        made._having = tuple(sorted({*needs}))
        return made

    def stranger(
        self, having: str, same: str = "", kinds_of: KindsOf = lambda users, same: {}
    ) -> User | None:
        """Return the row's stranger: a third user with posts (choices, traits), drawn for this row.

        Uniform over the users of the pool that have some, except the row's own user and, in a
        mirrored couple, its mirror user; with `same` over those of the own user's kind, if any.
        None where there are not so many third users. Raises `UsageError` where no pool was given,
        as for a user given in a call.

        >>> posts = {name: (Post(id="1", text=f"{name} wrote"),) for name in ("ann", "bob")}
        >>> pool = UserPool({name: User(id=name, posts=own) for name, own in posts.items()})
        >>> pool.at("row 7", "ann").stranger("posts").id
        'bob'
        """
        assert self._row is not None, "strangers are drawn for a row: pool.at(row, user)"
        row, user, draw = self._row
        if not self.users:
            raise UsageError(
                f"row {row!r}: a stranger is drawn from a pool of users, and none is given; give "
                "one, such as a benchmark's"
            )
        needs = self._having or (having,)
        if same not in self._kinds:
            self._kinds[same] = kinds_of(self.users, same)
        having, kinds = "+".join(needs), self._kinds[same]
        kind = kinds.get(user, None if same else "")
        among = having, same, kind
        if among not in self._pools:
            names = (name for name, it in self.users.items() if all(map(it.has, needs)))
            self._pools[among] = sorted(name for name in names if kinds.get(name, "") == kind)
        excluded = {user, self.mirror_users.get(row, user)}
        drawn = third_users(self._pools[among], excluded, draw + 1, having, self.seed, row)
        return self.users[drawn[draw]] if len(drawn) > draw else None


def mirror_users_of(questions: Iterable[Question]) -> dict[str, str]:
    """Return, for each row (id), the user of its mirror row, where each names the other."""
    pairs = {pair.id: pair for pair in questions if isinstance(pair, PreferencePair)}
    both = ((pair, pairs.get(pair.mirror_of or "")) for pair in pairs.values())
    return {
        pair.id: other.user_id
        for pair, other in both
        if other and other.mirror_of == pair.id and other.user_id != pair.user_id
    }


def third_users(
    pool: Sequence[str], excluded: Collection[str], draws: int, *row: object
) -> list[str]:
    """Draw users of a pool without replacement, uniformly among those who are not excluded.

    The pool (sorted names) is shuffled for the row, and who is excluded is passed over: excluding
    somebody else matters only to rows that would have drawn them. The first of several draws are
    those of fewer draws; all of them where the pool has no more. The shuffle is a function of pool
    and `row`.

    >>> third_users(["ann", "bob", "cid", "dot"], {"ann", "cid"}, 1, "seed 0", "row 7")
    ['dot']
    >>> sorted(third_users(["ann", "bob", "cid", "dot"], {"ann"}, 9, "seed 0", "row 7"))
    ['bob', 'cid', 'dot']
    """
    moved: dict[int, int] = {}  # a shuffle of the whole pool that holds only what was moved
    drawn: list[str] = []
    for step in range(len(pool)):
        if len(drawn) == draws:
            break
        at = step + int(digest("third user", step, *row)[:32], 16) % (len(pool) - step)
        name = pool[moved.get(at, at)]
        moved[at] = moved.get(step, step)
        if name not in excluded:
            drawn.append(name)
    return drawn


def user_key(user_id: str) -> str:
    """Return the opaque key under which a personal scorer keeps this user's state.

    >>> user_key("turker0047")[:8]
    'a0431eb0'
    """
    return digest("user", user_id)[:32]


def is_nobody(name: str) -> bool:
    """Tell whether a user's name, or what they said of a trait, stands for none.

    `NA` in capitals is a missing value of R; in small letters it may be a name.

    >>> is_nobody("[Deleted]"), is_nobody("${user}"), is_nobody("Na"), is_nobody("ann")
    (True, True, False, False)
    """
    plain = normal_form(name)
    return plain == "NA" or plain.lower() in NOBODY or bool(PLACEHOLDER.fullmatch(plain))


class DistinctNames:
    """Names in use, by what they name; no two may differ in nothing but their form."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], tuple[str, str]] = {}

    def add(self, what: str, name: str, where: str) -> None:
        """Note a name and where it stands; raises `DataError` where another has its normal form.

        >>> names = DistinctNames()
        >>> names.add("user", "ana", "row 1")
        >>> names.add("user", "ana ", "row 7")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        palate.errors.DataError: the user 'ana' (row 1) and the user 'ana ' (row 7) differ in ...
        """
        other, first = self._first.setdefault((what, normal_form(name)), (name, where))
        if other != name:
            raise DataError(
                f"the {what} {other!a} ({first}) and the {what} {name!a} ({where}) differ in "
                "nothing but white space or the form of accents, or in what has no width; write "
                "both alike"
            )
