"""The states that a personal policy is read with: from a file, or learnt when first needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from palate.learning.p_dpo.adapting import FORMAT, adapt, encode_all
from palate.learning.p_dpo.folder import STATE, PersonalPolicy
from palate.learning.personal.states import UserStates
from palate.records import Choice, Settings
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference


class Users(Protocol):
    """Users with a state each."""

    @property
    def place(self) -> Mapping[str, int]:
        """Where each user's state stands."""

    @property
    def identity(self) -> str:
        """Hash of what the states depend on."""

    @property
    def offsets(self) -> NDArray[np.float32]:
        """o_u of each (users × T × d)."""

    @property
    def n_too_long(self) -> int:
        """How many choices were left out."""


class FromFile:
    """States that `palate adapt` wrote."""

    def __init__(self, states: UserStates) -> None:
        self.place, self.identity, self.offsets = states.place, states.content, states.states[STATE]

    @property
    def n_too_long(self) -> int:
        """0: the file does not say."""
        return 0


class Joined:
    """Users, and others who joined them; who is in both has the state of the others."""

    def __init__(self, users: Users, others: Users) -> None:
        self.users, self.others = users, others
        n = len(users.place)
        self.place = {**users.place, **{key: n + k for key, k in others.place.items()}}
        self.identity = digest("joined", users.identity, others.identity)

    @cached_property
    def offsets(self) -> NDArray[np.float32]:
        """o_u of all, the others' last."""
        return np.concatenate([self.users.offsets, self.others.offsets])

    @property
    def n_too_long(self) -> int:
        """How many choices were left out."""
        return self.users.n_too_long + self.others.n_too_long


class FromChoices:
    """States that are learnt when they are first needed: a finished run needs none."""

    def __init__(
        self,
        policy: PersonalPolicy,
        reference: Reference,
        history: Mapping[str, Sequence[Choice]],
        session: Session,
        settings: Settings,
    ) -> None:
        self.policy, self.reference = policy, reference
        self.session, self.settings = session, settings
        self.history = history
        self.place = {key: k for k, key in enumerate(history)}
        said = {key: [choice.model_dump() for choice in own] for key, own in history.items()}
        self.identity = digest("choices", FORMAT, said)

    @cached_property
    def offsets(self) -> NDArray[np.float32]:
        """Learn o_u of each user, all in one job."""
        found = adapt(self.policy, self.history, self.session, self.settings, self.reference)
        return found.states[STATE]

    @property
    def n_too_long(self) -> int:
        """How many choices are longer than the window."""
        fitting = encode_all(self.policy, self.history, self.session, self.settings, self.reference)
        return fitting.n_too_long
