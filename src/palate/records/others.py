"""The users of one subset, who mirrors whom, and which stranger each is paired with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from palate.records.pairs import PreferencePair
from palate.records.users import Choice, Post, User
from palate.seeding import rng


class Others:
    """All users of one subset, as a context may know them.

    A user's posts are the union by post id over all their rows, oldest first; their choices are
    what they preferred before, in file order.
    """

    def __init__(
        self, users: Mapping[str, User], partners: Mapping[str, frozenset[str]], seed: int = 0
    ) -> None:
        self.users = dict(users)
        self.partners = dict(partners)
        self.seed = seed

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
        return cls(users, _partners([*history, *pairs]), seed)

    @cached_property
    def have_choices(self) -> bool:
        """True where any user's past choices are known."""
        return any(user.choices for user in self.users.values())

    @cached_property
    def strangers(self) -> Mapping[str, str]:
        """Each user's stranger: a seeded derangement among users with posts, never a partner.

        A user without posts gets a stranger too (nothing of theirs is shown to anybody). Where no
        derangement exists (everyone is everyone's partner) the users without one are absent.
        """
        return self._strangers([name for name, user in self.users.items() if user.posts])

    @cached_property
    def choice_strangers(self) -> Mapping[str, str]:
        """Each user's stranger among users with past choices; the same law."""
        return self._strangers([name for name, user in self.users.items() if user.choices])

    def _strangers(self, among: Iterable[str]) -> Mapping[str, str]:
        names = sorted(among)
        drawn = derangement(names, self.partners, self.seed)
        for name in sorted(set(self.users) - set(names)):
            allowed = [n for n in names if n not in self.partners.get(name, ())]
            if allowed:
                drawn[name] = allowed[int(rng("stranger", self.seed, name).integers(len(allowed)))]
        return drawn


def _partners(pairs: Sequence[PreferencePair]) -> dict[str, frozenset[str]]:
    owner = {pair.id: pair.user_id for pair in pairs}
    partners: dict[str, set[str]] = {}
    for pair in pairs:
        if pair.mirror_of in owner:
            partner = owner[pair.mirror_of]
            partners.setdefault(pair.user_id, set()).add(partner)
            partners.setdefault(partner, set()).add(pair.user_id)
    return {name: frozenset(who) for name, who in partners.items()}


def derangement(
    names: list[str], forbidden: Mapping[str, frozenset[str]], seed: int
) -> dict[str, str]:
    """Draw a permutation of names without fixed points and without forbidden pairs.

    A seeded shuffle repaired by swaps; a user for whom no repair exists is left out.

    >>> drawn = derangement(["a", "b", "c"], {"a": frozenset("b")}, 0)
    >>> drawn == {"a": "c", "b": "a", "c": "b"}
    True
    """
    stream = rng("derangement", seed, names)
    drawn = [int(i) for i in stream.permutation(len(names))]

    def fits(i: int, j: int) -> bool:
        return i != j and names[j] not in forbidden.get(names[i], ())

    order = [int(i) for i in stream.permutation(len(names))]
    for i in order:
        if fits(i, drawn[i]):
            continue
        swaps = (j for j in order if fits(i, drawn[j]) and fits(j, drawn[i]))
        partner = next(swaps, None)
        if partner is not None:
            drawn[i], drawn[partner] = drawn[partner], drawn[i]
    if not all(fits(i, j) for i, j in enumerate(drawn)):
        drawn = _by_matching(len(names), fits)
    return {names[i]: names[j] for i, j in enumerate(drawn) if j >= 0 and fits(i, j)}


def _by_matching(n: int, fits: object) -> list[int]:
    # Swaps can get stuck where a derangement exists: then ask for a maximum matching.
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    assert callable(fits)
    allowed = [[int(fits(i, j)) for j in range(n)] for i in range(n)]
    matched = maximum_bipartite_matching(csr_matrix(allowed), perm_type="column")
    return [int(j) for j in matched]


def _by_date(posts: Mapping[str, Post]) -> list[Post]:
    listed = list(posts.values())
    return (
        sorted(listed, key=lambda post: post.date or "") if all(p.date for p in listed) else listed
    )
