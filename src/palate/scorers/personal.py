"""A trained personal reward model: one state per user, learnt from their choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from palate.embeddings import Features, HiddenStates, Item, items_of
from palate.errors import UsageError
from palate.guidance import PrefixGuide
from palate.learning import PersonalModel, UserStates, take
from palate.models import import_torch
from palate.prompts import render
from palate.records import (
    MOST_STRANGERS,
    NO_STRANGER,
    Choice,
    Judgement,
    ScorerInfo,
    Scores,
    Settings,
    Slate,
)
from palate.scorers.guiding import StateGuide
from palate.scorers.state_options import OPTIONS, StatefulScorer
from palate.seeding import digest, shuffled
from palate.session import Session
from palate.specs import Reference, Spec

if TYPE_CHECKING:
    from torch import Tensor

EXAMPLE = "personal:./models/lore"
AT_ONCE = 2048
"""Slates whose vectors are in memory together."""
READ_AT_ONCE = 128
"""Responses that a language model reads before their scores are told."""
VOTERS = MOST_STRANGERS
"""Third users who vote on a row, at most."""
EXCLUDED = 2
"""Users who may be no third users of a row: its own and, in a couple, its mirror user."""


class ResponseVectors(NamedTuple):
    """What a personal model reads of slates of one size."""

    table: NDArray[np.float32]
    """slates × candidates × width; 0 where a response is too long."""
    questions: NDArray[np.float32] | None
    """Of the questions (slates × width), where the model needs them."""
    usable: NDArray[np.bool_]
    """slates × candidates: where a response has a vector."""


class Personal(StatefulScorer[UserStates]):
    """A personal reward model, with one state per user.

    Scores each response by its vector and the user's state.

    `?state=own` (the default) reads the user's own state, `prior` that of a user of whom nothing is
    known; `stranger` is a judge, `ThirdUsers`. States come from `?users=FILE`, or from
    the choices that the benchmark's users made earlier, of which `?shots=k` draws k per user,
    `?repeat=r` other ones.
    With `?minus=prior` the prior's score is taken off: how much more this user likes a response
    than people in general do.
    """

    def __init__(
        self, spec: Spec, session: Session, settings: Settings, trained: PersonalModel | None = None
    ) -> None:
        if "draws" in spec.options:
            raise spec.error("all third users vote; draws is for p-dpo")
        spec.only(OPTIONS - {"draws"})
        if trained is None:
            reference = Reference.parse(spec.need_reference(EXAMPLE))
            if reference.place != "folder":
                raise UsageError(f"{spec}: name a folder that palate train made, as in {EXAMPLE}")
            trained = PersonalModel.load(Path(reference.name).expanduser())
        self.trained = trained
        self.features: Features = trained.features(session, settings)
        super().__init__(spec, session, settings)
        self._every: dict[str, np.ndarray] | None = None
        if self.wanted.users is not None:
            self.users = UserStates.load(self.wanted.users, self.trained.fingerprint)

    def adapted(self, history: Mapping[str, Sequence[Choice]]) -> Personal:
        """Return this scorer with a state for each user of a history; users who joined stay."""
        learnt = self._learnt(history)
        joined = self.users.of(self.live) if self.users is not None and self.live else None
        return self.with_users(learnt if joined is None else learnt.joined_by(joined), self.live)

    def join(self, choices: Mapping[str, Sequence[Choice]]) -> Personal:
        """Return this scorer with these users added (id → what they chose).

        Nobody else's state changes, and who joins is nobody's third user. Who joins again has the
        state of the choices given last.
        """
        new = self._learnt(choices)
        users = new if self.users is None else self.users.joined_by(new)
        return self.with_users(users, self.live | set(new.keys))

    @property
    def trained_on(self) -> frozenset[str]:
        """Keys of the users it was trained on."""
        return self.trained.trained_on

    @property
    def info(self) -> ScorerInfo:
        """What the numbers depend on: model, vectors, whose state, and the states."""
        states = self.users.content if self.users is not None else None
        trained, model = self.trained.fingerprint, self.trained.model
        read = self.features.fingerprint, self.state, states, self.minus
        return ScorerInfo(
            fingerprint=digest("personal", trained, *read),
            exact=self.features.exact and getattr(model, "exact", False),
            needs_user=True,
            log_odds=model.log_odds and not self.minus,
            details={
                "method": model.method,
                "model": trained,
                "embedders": list(self.trained.embedders),
                "states": states,
            },
        )

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield scores; a user without a state of their own has the prior's."""
        step = AT_ONCE
        if not self.features.exact and slates:
            step = max(1, READ_AT_ONCE // max(len(slate.candidates) for slate in slates))
        for first in range(0, len(slates), step):
            by_size: dict[int, dict[int, Slate]] = {}
            for k, slate in enumerate(slates[first : first + step], first):
                by_size.setdefault(len(slate.candidates), {})[k] = slate
            for size in sorted(by_size):
                yield from self._of_size(by_size[size], size)

    def prefix_guide(self) -> PrefixGuide | None:
        """Return the reward of what is written so far; None unless it reads last-token states."""
        sources = self.features.sources
        states = sources[0] if len(sources) == 1 else None
        if not isinstance(states, HiddenStates):
            return None
        return StateGuide(
            states.reader,
            lambda: states.model,
            lambda ids: len(ids) - 1,
            self._of_states,
            lambda slate: self._questions([slate]),
        )

    def _of_states(self, outputs: Tensor, slates: Sequence[Slate]) -> Tensor:
        usable = np.ones(outputs.shape[:2], dtype=np.bool_)
        read = ResponseVectors(outputs.float().cpu().numpy(), self._questions(slates), usable)
        rewards = self.scores(read, [slate.user for slate in slates]).astype(np.float32)
        made: Tensor = import_torch().from_numpy(rewards).to(outputs.device)
        return made

    def _questions(self, slates: Sequence[Slate]) -> NDArray[np.float32] | None:
        if not self.trained.model.needs_prompts:
            return None
        items = [Item(render(slate.question, slate.shown), "") for slate in slates]
        return self.features.prompts(items)

    def notes(self) -> tuple[str, ...]:
        """Say how large a state is, and what loading the embedders gave rise to."""
        notes = self.features.notes
        if self.users is None or self.state == "prior":
            return notes
        size, lost = self.users.bytes_each, self.users.n_too_long
        too_long = f"; {lost:,} choices have no vector ({self.features.lacking})" if lost else ""
        method = self.trained.model.method
        return (f"{method}: {size:,.0f} bytes of state per user{too_long}", *notes)

    def _learnt(self, choices: Mapping[str, Sequence[Choice]]) -> UserStates:
        return self.trained.adapt(self.shots(choices), self.features)

    def with_users(self, users: UserStates, live: frozenset[str]) -> Self:
        """Return this scorer with these users' states, put together anew."""
        copy = super().with_users(users, live)
        copy._every = None
        return copy

    def _of_size(self, slates: Mapping[int, Slate], size: int) -> Iterator[tuple[int, Scores]]:
        read, why = self.vectors([*slates.values()], size), self.features.lacking
        scores = self.scores(read, [slate.user for slate in slates.values()]).tolist()
        for k, row, usable in zip(slates, scores, read.usable.tolist(), strict=True):
            values = [v if fits else None for v, fits in zip(row, usable, strict=True)]
            reasons = [None if fits else why for fits in usable]
            yield k, Scores.of(values, reasons)

    def vectors(self, slates: Sequence[Slate], size: int) -> ResponseVectors:
        """Return the vectors of slates of `size` candidates."""
        items = [item for slate in slates for item in items_of(slate)]
        table = self.features.table(items).reshape(len(slates), size, self.features.width)
        questions, usable = None, np.isfinite(table.sum(axis=2))
        if self.trained.model.needs_prompts:
            questions = self.features.prompts([items[k] for k in range(0, len(items), size)])
            usable &= np.isfinite(questions.sum(axis=1))[:, None]
            questions = np.nan_to_num(questions)
        return ResponseVectors(np.nan_to_num(table), questions, usable)

    def scores(self, read: ResponseVectors, users: Sequence[str | None]) -> NDArray[np.float64]:
        """Return scores (slates × candidates) by a user's state each; NaN without a vector."""
        states = self._states([self._place(user) for user in users])
        scores = self.trained.score(states, read.table, read.questions)
        if self.minus:
            prior = self._states([0] * len(users))
            scores = scores - self.trained.score(prior, read.table, read.questions)
        return np.where(read.usable, scores, np.nan)

    def _place(self, user: str | None) -> int:
        # 0 is the prior, n + 1 the n-th user.
        if self.state == "prior" or user is None:
            return 0
        assert self.users is not None, "the scorer was not adapted"
        return self.users.place.get(user, -1) + 1

    def _states(self, places: Sequence[int]) -> dict[str, np.ndarray]:
        prior = self.trained.model.prior()
        if self.users is None:
            return take(prior, np.zeros(len(places), np.int64))
        if self._every is None:
            owned = self.users.states
            self._every = {name: np.concatenate([prior[name], it]) for name, it in owned.items()}
        return take(self._every, np.array(places, np.int64))

    def __getstate__(self) -> dict[str, object]:
        """Leave out what embeds: a worker builds its own."""
        return {**self.__dict__, "features": None, "_every": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Build what embeds anew."""
        self.__dict__.update(state)
        self.features = self.trained.features(self.session, self.settings)


class ThirdUsers:
    """Judges a pair by the votes of all third users: `personal:DIR?state=stranger`.

    A third user is any user with a state except those whose keys the slate excludes: the row's own
    and, in a mirrored couple, its mirror user. With v third users and votes 1, ½, 0 for the first
    response, as a user's score of it is higher, equal or lower in float32,

        margin = share of votes for the first − share for the second.

    A mean of states or of margins would be the prior, and on couples the own state turned round.
    Where there are more than 256 other users, a seeded choice of 256 votes. The options are those
    of `Personal`; `?minus=prior` takes the prior's score off each user's. With `?same=TRAIT` those
    vote who share the trait with the user.
    """

    state = "stranger"

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        self.personal = Personal(spec, session, settings)
        self.seed, self.same = settings.seed, self.personal.same

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
        made = digest("third users", info.fingerprint, self.seed)
        flags = {"log_odds": False, "pairs_only": True, "votes": True}
        return info.model_copy(update={"fingerprint": made, **flags})

    def notes(self) -> tuple[str, ...]:
        """Say how large a state is, and how many vote."""
        voters = f"{'at most ' * bool(self.same)}{min(VOTERS, len(self.known)):,}"
        return (*self.personal.notes(), f"{voters} users' states vote, third users of each row")

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        """Yield the difference of the two shares of votes; unscored where nobody can vote."""
        voters = shuffled(self.known, "voters", self.seed)
        voters = voters if self.same else voters[: VOTERS + EXCLUDED]
        step = AT_ONCE if self.personal.features.exact else READ_AT_ONCE // 2
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
