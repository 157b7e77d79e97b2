"""The users of one subset, who mirrors whom, and which third user a row is given as a stranger."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal

from palate.records.pairs import PreferencePair
from palate.records.users import Choice, Post, User
from palate.seeding import digest

NO_STRANGER = "no stranger"
"""Why a row is unscored that is to be read as a third user's and has none."""

MOST_STRANGERS = 256
"""Third users that one row is judged by, at most."""


class Others:
    """All users of one subset, as a context may know them.

    A user's posts are the union by post id over all their rows, oldest first; their choices are
    what they preferred before, in file order. `partners` names, for each row of a mirrored couple,
    the user of the other row.
    """

    def __init__(
        self,
        users: Mapping[str, User],
        partners: Mapping[str, str],
        seed: int = 0,
        draw: int = 0,
    ) -> None:
        self.users = dict(users)
        self.partners = dict(partners)
        self.seed = seed
        self.draw = draw
        """Which of a row's strangers `stranger` gives, from 0."""
        self._pools: dict[str, list[str]] = {}

    @classmethod
    def of(
        cls,
        pairs: Iterable[PreferencePair],
        seed: int = 0,
        history: Iterable[PreferencePair] = (),
    ) -> Others:
        """Gather the users of these pairs (one subset) and of these past choices.

        Of a past choice only the question, the two responses and whose it is are read.
        """
        pairs, history = list(pairs), list(history)
        posts: dict[str, dict[str, Post]] = {}
        traits: dict[str, dict[str, str]] = {}
        choices: dict[str, list[Choice]] = {}
        for pair in pairs:
            posts.setdefault(pair.user_id, {}).update((post.id, post) for post in pair.profile)
            traits.setdefault(pair.user_id, {}).update(pair.traits)
        for past in history:
            choice = Choice(question=past.question, chosen=past.chosen, rejected=past.rejected)
            choices.setdefault(past.user_id, []).append(choice)
        users = {
            name: User(
                id=name,
                posts=tuple(_by_date(posts.get(name, {}))),
                choices=tuple(choices.get(name, ())),
                traits=traits.get(name, {}),
            )
            for name in dict.fromkeys((*posts, *choices))
        }
        return cls(users, partners_of(pairs), seed)

    def at_draw(self, draw: int) -> Others:
        """Return the same users, among whom `stranger` gives the row's draw of this number."""
        made = object.__new__(Others)
        made.__dict__.update({**self.__dict__, "draw": draw})
        return made

    @cached_property
    def have_choices(self) -> bool:
        """True where any user's past choices are known."""
        return any(user.choices for user in self.users.values())

    def stranger(self, pair: PreferencePair, having: Literal["posts", "choices"]) -> User | None:
        """Return the row's stranger: a third user with posts (past choices), drawn for this row.

        Uniform over the users of the subset that have some, except the row's own user and, in a
        mirrored couple, its partner. None where there are not so many third users.
        """
        pool = self._pools.get(having)
        if pool is None:
            pool = sorted(name for name, user in self.users.items() if getattr(user, having))
            self._pools[having] = pool
        excluded = {pair.user_id, self.partners.get(pair.id, pair.user_id)}
        drawn = third_users(pool, excluded, self.draw + 1, having, self.seed, pair.id)
        return self.users[drawn[self.draw]] if len(drawn) > self.draw else None


def partners_of(pairs: Iterable[PreferencePair]) -> dict[str, str]:
    """Return, for each row of a mirrored couple (id), the user of the other row.

    Two rows are a couple where each names the other in `mirror_of` and their users differ.
    """
    named = {pair.id: (pair.mirror_of, pair.user_id) for pair in pairs if pair.mirror_of}
    nobody = "", ""
    return {
        row: partner
        for row, (other, user) in named.items()
        for back, partner in [named.get(other, nobody)]
        if back == row and partner != user
    }


def third_users(
    pool: Sequence[str], excluded: Collection[str], draws: int, *row: object
) -> list[str]:
    """Draw users of a pool without replacement, uniformly among those who are not excluded.

    The pool is shuffled for the row, and who is excluded is passed over: excluding somebody else
    matters only to rows that would have drawn them. The first of several draws are those of fewer
    draws; all of them where the pool has no more.

    Args:
        pool: sorted names.
        excluded: who is never drawn, whether in the pool or not.
        draws: how many are wanted.
        row: what the shuffle is for; it is a function of the pool and this.

    Example:
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


def _by_date(posts: Mapping[str, Post]) -> list[Post]:
    listed = list(posts.values())
    return (
        sorted(listed, key=lambda post: post.date or "") if all(p.date for p in listed) else listed
    )
