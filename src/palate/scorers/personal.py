"""A trained personal reward model: one state per user, learnt from their choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from palate.embeddings import Features, HiddenStates, Item, items_of
from palate.errors import SpecError, UsageError
from palate.guidance import PrefixGuide
from palate.learning.personal import PersonalModel, UserStates, take
from palate.models import import_torch
from palate.prompts import render
from palate.records import Choice, ScorerInfo, Scores, Settings, Slate
from palate.scorers.guiding import StateGuide
from palate.scorers.state_options import OPTIONS, StatefulScorer
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec

if TYPE_CHECKING:
    from torch import Tensor

EXAMPLE = "personal:./models/lore"
AT_ONCE = 2048
"""Slates whose vectors are in memory together."""
READ_AT_ONCE = 128
"""Responses that a language model reads before their scores are told."""


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
    known; `stranger` is a judge, `third_users.ThirdUsers`. States come from `?users=FILE`, or from
    the choices that the benchmark's users made earlier, of which `?shots=k` draws k per user,
    `?repeat=r` other ones.
    With `?minus=prior` the prior's score is taken off: how much more this user likes a response
    than people in general do.
    """

    def __init__(
        self, spec: Spec, session: Session, settings: Settings, trained: PersonalModel | None = None
    ) -> None:
        if "draws" in spec.options:
            raise SpecError(f"spec {str(spec)!r}: all third users vote; draws is for p-dpo")
        spec.only(OPTIONS - {"draws"})
        self.trained = trained if trained is not None else _loaded(spec)
        self.features: Features = self.trained.features(session, settings)
        super().__init__(spec, session, settings)
        self._every: dict[str, np.ndarray] | None = None
        if self.wanted.users is not None:
            self.users = UserStates.load(self.wanted.users, self.trained.fingerprint)

    def adapted(self, history: Mapping[str, Sequence[Choice]]) -> Personal:
        """Return this scorer with a state for each user (id → their earlier choices).

        Users who joined stay.
        """
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
        return ScorerInfo(
            fingerprint=digest(
                "personal",
                self.trained.fingerprint,
                self.features.fingerprint,
                self.state,
                states,
                self.minus,
            ),
            exact=self.features.exact and getattr(self.trained.model, "exact", False),
            needs_user=True,
            log_odds=self.trained.model.log_odds and not self.minus,
            details={
                "method": self.trained.model.method,
                "model": self.trained.fingerprint,
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
            some = list(enumerate(slates[first : first + step], first))
            sizes = {len(slate.candidates) for _, slate in some}
            for size in sorted(sizes):
                yield from self._of_size([it for it in some if len(it[1].candidates) == size], size)

    def prefix_guide(self) -> PrefixGuide | None:
        """Return the reward of what is written so far; None unless it reads last-token states."""
        if len(self.features.sources) != 1 or not isinstance(
            self.features.sources[0], HiddenStates
        ):
            return None
        states = self.features.sources[0]
        return StateGuide(
            states.reader,
            lambda: states.model,
            lambda ids: len(ids) - 1,
            self._of_states,
            lambda slate: self._questions([slate]),
        )

    def _of_states(self, outputs: Tensor, slates: Sequence[Slate]) -> Tensor:
        torch = import_torch()
        read = ResponseVectors(
            outputs.float().cpu().numpy(),
            self._questions(slates),
            np.ones(outputs.shape[:2], dtype=np.bool_),
        )
        rewards = self.scores(read, [slate.user for slate in slates])
        made: Tensor = torch.from_numpy(rewards.astype(np.float32)).to(outputs.device)
        return made

    def _questions(self, slates: Sequence[Slate]) -> NDArray[np.float32] | None:
        if not self.trained.model.needs_prompts:
            return None
        return self.features.prompts([Item(render(it.question, it.shown), "") for it in slates])

    def notes(self) -> tuple[str, ...]:
        """Say how large a state is, and what loading the embedders gave rise to."""
        notes = self.features.notes
        if self.users is None or self.state == "prior":
            return notes
        each = self.users.bytes_each
        lost = self.users.n_too_long
        too_long = f"; {lost:,} choices have no vector ({self.features.lacking})" if lost else ""
        return (
            f"{self.trained.model.method}: {each:,.0f} bytes of state per user{too_long}",
            *notes,
        )

    def _learnt(self, choices: Mapping[str, Sequence[Choice]]) -> UserStates:
        return self.trained.adapt(self.shots(choices), self.features)

    def with_users(self, users: UserStates, live: frozenset[str]) -> Self:
        """Return this scorer with these users' states, put together anew."""
        copy = super().with_users(users, live)
        copy._every = None
        return copy

    def _of_size(
        self, some: Sequence[tuple[int, Slate]], size: int
    ) -> Iterator[tuple[int, Scores]]:
        read = self.vectors([slate for _, slate in some], size)
        found = self.scores(read, [slate.user for _, slate in some])
        for (k, _), values, fits in zip(some, found.tolist(), read.usable.tolist(), strict=True):
            few = tuple(v if ok else None for v, ok in zip(values, fits, strict=True))
            why = self.features.lacking
            yield k, Scores(values=few, reasons=tuple(None if ok else why for ok in fits))

    def vectors(self, slates: Sequence[Slate], size: int) -> ResponseVectors:
        """Return the vectors of slates of `size` candidates."""
        items = [item for slate in slates for item in items_of(slate)]
        table = self.features.table(items).reshape(len(slates), size, self.features.width)
        questions = None
        if self.trained.model.needs_prompts:
            questions = self.features.prompts([items[k] for k in range(0, len(items), size)])
        usable = np.isfinite(table.sum(axis=2))
        if questions is not None:
            usable &= np.isfinite(questions.sum(axis=1))[:, None]
            questions = np.nan_to_num(questions)
        return ResponseVectors(np.nan_to_num(table), questions, usable)

    def scores(self, read: ResponseVectors, users: Sequence[str | None]) -> NDArray[np.float64]:
        """Return scores (slates × candidates) by a user's state each; NaN without a vector."""
        states = self._states([self._place(user) for user in users])
        found = self.trained.score(states, read.table, read.questions)
        if self.minus:
            prior = self._states([0] * len(users))
            found = found - self.trained.score(prior, read.table, read.questions)
        return np.where(read.usable, found, np.nan)

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


def _loaded(spec: Spec) -> PersonalModel:
    reference = Reference.parse(spec.need_reference(EXAMPLE))
    if reference.place != "folder":
        raise UsageError(f"{spec}: name a folder that palate train made, as in {EXAMPLE}")
    return PersonalModel.load(Path(reference.name).expanduser())
