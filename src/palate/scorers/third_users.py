"""The stranger's state of a personal reward model: all third users vote on a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palate.learning.personal import take
from palate.records import (
    MOST_STRANGERS,
    NO_STRANGER,
    Choice,
    Judgement,
    ScorerInfo,
    Settings,
    Slate,
)
from palate.scorers.personal import Personal
from palate.seeding import digest, shuffled
from palate.session import Session
from palate.specs import Spec

VOTERS = MOST_STRANGERS
"""Third users who vote on a row, at most."""
EXCLUDED = 2
"""Users who may be no third users of a row: its own and, in a couple, its mirror user."""
AT_ONCE = 2048
"""Slates that are voted on together; READ_AT_ONCE where a language model embeds them."""
READ_AT_ONCE = 64


class ThirdUsers:
    """Judges a pair by the votes of all third users: `personal:DIR?state=stranger`.

    A third user is any user with a state except those whose keys the slate excludes: the row's own
    and, in a mirrored couple, its mirror user. With v third users and votes 1, ½, 0 for the first
    response, as a user's score of it is higher, equal or lower in float32,

        margin = share of votes for the first − share for the second.

    A mean of states or of margins would be the prior, and on couples the own state turned round.
    Where there are more than 256 other users, a seeded choice of 256 votes. The options are those
    of `Personal`; `?minus=prior` takes the prior's score off each user's.
    """

    state = "stranger"

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        self.personal = Personal(spec, session, settings)
        self.seed = settings.seed

    @property
    def wants_choices(self) -> bool:
        """True until it knows any user's state."""
        return self.personal.wants_choices

    @property
    def known(self) -> Sequence[str]:
        """Keys of the users with a state who may be third users, sorted."""
        return self.personal.known

    def adapted(self, history: Mapping[str, Sequence[Choice]]) -> ThirdUsers:
        """Return this judge with a state for each user (id → their earlier choices)."""
        return self._with(self.personal.adapted(history))

    def like(self, other: ThirdUsers) -> ThirdUsers:
        """Return this judge with the states of another of the same spec, as they were learnt."""
        return self._with(self.personal.like(other.personal))

    def join(self, choices: Mapping[str, Sequence[Choice]]) -> ThirdUsers:
        """Return this judge with these users added; they do not vote."""
        return self._with(self.personal.join(choices))

    @property
    def info(self) -> ScorerInfo:
        """What the numbers depend on: the model, the states, and whose are drawn."""
        info = self.personal.info
        changed = {
            "fingerprint": digest("third users", info.fingerprint, self.seed),
            "log_odds": False,
            "pairs_only": True,
            "votes": True,
        }
        return info.model_copy(update=changed)

    def notes(self) -> tuple[str, ...]:
        """Say how large a state is, and how many vote."""
        voters = min(VOTERS, len(self.known))
        return (*self.personal.notes(), f"{voters:,} users' states vote, third users of each row")

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        """Yield the difference of the two shares of votes; unscored where nobody can vote."""
        voters = shuffled(self.known, "voters", self.seed)[: VOTERS + EXCLUDED]
        step = AT_ONCE if self.personal.features.exact else READ_AT_ONCE
        for first in range(0, len(slates), step):
            yield from enumerate(self._judged(slates[first : first + step], voters), first)

    def _with(self, personal: Personal) -> ThirdUsers:
        copy = object.__new__(ThirdUsers)
        copy.__dict__.update({**self.__dict__, "personal": personal})
        return copy

    def _judged(self, slates: Sequence[Slate], voters: Sequence[str]) -> Iterator[Judgement]:
        for slate in slates:
            slate.need_two()
        read = self.personal.vectors(slates, 2)
        users = self.personal.users
        assert users is not None, "the judge was not adapted"
        allowed = may_vote(slates, voters)
        margins = np.zeros(len(slates))
        if voters:
            states = take(users.states, np.array([users.place[key] for key in voters]))
            scores = self.personal.trained.score_each(
                states, read.table, read.questions, minus_prior=self.personal.minus
            )
            allowed &= np.isfinite(scores).all(axis=2)
            margins = vote(scores, allowed)
        whole: NDArray[np.bool_] = np.asarray(read.usable.all(axis=1))
        for margin, fits, n in zip(margins.tolist(), whole, allowed.sum(axis=0), strict=True):
            reason = None if fits and n else NO_STRANGER if fits else "too long"
            yield Judgement(margin=margin if reason is None else None, reason=reason)


def may_vote(slates: Sequence[Slate], voters: Sequence[str]) -> NDArray[np.bool_]:
    """Return who may vote on what (voters × slates): the first 256 whom the slate does not exclude.

    The two rows of a couple exclude the same two, so the same users vote on both.
    """
    place = {key: k for k, key in enumerate(voters)}
    allowed = np.ones((len(voters), len(slates)), dtype=np.bool_)
    for k, slate in enumerate(slates):
        barred = [place[key] for key in slate.excluded if key in place]
        allowed[barred, k] = False
    return np.asarray(allowed & (np.cumsum(allowed, axis=0) <= VOTERS))


def vote(scores: NDArray[np.float64], allowed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return each slate's share of votes for the first response less that for the second.

    Args:
        scores: of every user on both responses, shape (users, slates, 2); compared as float32.
        allowed: whose vote counts, shape (users, slates); 0 comes out where nobody's does.

    Example:
        >>> scores = np.array([[[2.0, 1.0]], [[1.0, 3.0]], [[1.0, 1.0]], [[5.0, 1.0]]])
        >>> vote(scores, np.ones((4, 1), dtype=bool)).tolist()
        [0.25]
    """
    with np.errstate(over="ignore"):
        first, second = np.moveaxis(scores.astype(np.float32), 2, 0)
    votes = ((first > second).astype(np.int64) - (first < second)) * allowed
    return np.asarray(votes.sum(axis=0) / np.maximum(allowed.sum(axis=0), 1))
