"""The response's probability under a personal policy, and its reference for anybody."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from palate.errors import DataError
from palate.learning.p_dpo import METHOD, STATE, PersonalPolicy, Users
from palate.learning.recipes.user_tokens import (
    block,
    head,
    install,
    opening,
    uninstall,
    with_tokens,
)
from palate.models import import_torch
from palate.prompts import prompt_hash
from palate.records import NO_STRANGER, Encoded, Prepared, Scores, Settings, Slate, unpacked
from palate.scorers.autoregressive import Autoregressive
from palate.scorers.causal import LocalText
from palate.scorers.state_options import State
from palate.session import Session
from palate.specs import Reference, Spec

if TYPE_CHECKING:
    import torch

AT_ONCE = 256
"""Slates scored with one table of users' tokens in place."""


class UserLikelihood(Autoregressive):
    """Σ_t log π(y_t | e_u, x, y_<t), the end of turn included."""

    def __init__(
        self,
        policy: PersonalPolicy,
        session: Session,
        settings: Settings,
        state: State,
        users: Users | None,
    ) -> None:
        self.policy, self.state = policy, state
        self.users = users if state != "prior" else None
        self.beta = 1.0
        identity = self.users.identity if self.users is not None else None
        what = f"{METHOD} {policy.fingerprint} {state} {identity}"
        self.local = LocalText(policy.policy, "causal", session, settings)
        self.info = self.local.info(what, prompt_hash("about.jinja"), needs_user=True)

    @cached_property
    def opening(self) -> tuple[int, ...]:
        """What stands before the user's tokens."""
        return opening(self.local.template)

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the window; nobody is told apart under the prior's state."""
        read = slate.replace(user=None) if self.state == "prior" else slate
        return super().prepare(read, dropped)

    def fit(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown until it fits beside the user's tokens, which are put in last."""
        return self.local.fit(slate, super().encoded, self.policy.tokens, dropped)

    def inputs(self, read: Prepared) -> list[Encoded]:
        """Return, per candidate, the closed conversation with the user's tokens in it."""
        plain = unpacked(read.inputs) if read.inputs else super().encoded(read.slate)
        tokens = block(self.policy.first, self.policy.tokens, self._place(read.slate))
        return [with_tokens(it, self.opening, tokens) for it in plain]

    def prompt_ids(self, slate: Slate) -> Sequence[int]:
        """Return what stands before the response, with the user's tokens in it."""
        ids = super().prompt_ids(slate)
        tokens = block(self.policy.first, self.policy.tokens, self._place(slate))
        return with_tokens(Encoded(ids, len(ids)), self.opening, tokens).ids

    def encoded(self, slate: Slate) -> list[Encoded]:
        """Return, per candidate, the closed conversation with the user's tokens in it."""
        return self.inputs(Prepared(slate))

    def score_prepared(self, prepared: Sequence[Prepared]) -> Iterator[tuple[int, Scores]]:
        """Yield sums; where a stranger is asked for and there is none, the slate is unscored."""
        todo: dict[int, Prepared] = {}
        for k, read in enumerate(prepared):
            if self.state == "stranger" and read.slate.user is None:
                yield k, Scores.unscored(len(read.slate.candidates), NO_STRANGER)
                continue
            todo[k] = read
            if len(todo) == AT_ONCE:
                yield from self._of_table(todo)
                todo = {}
        yield from self._of_table(todo)

    def _of_table(self, todo: dict[int, Prepared]) -> list[tuple[int, Scores]]:
        if not todo:
            return []
        places = list(todo)
        with self.in_place():
            results = list(super().score_prepared(list(todo.values())))
        return [(places[j], scores) for j, scores in results]

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the model reads, the user's tokens in brackets."""
        start = head(self.local.template)
        mark = f"[{self.policy.tokens} tokens of the user]"
        return [
            text.replace(start, f"{start}{mark}", 1) if text.startswith(start) else f"{mark}{text}"
            for text in super().prompts(slate)
        ]

    def _place(self, slate: Slate) -> int:
        # 0 is the generic user; a user without a state of their own is one too.
        if self.users is None or slate.user is None:
            return 0
        return self.users.place.get(slate.user, -1) + 1

    def per_token(self, slate: Slate) -> list[torch.Tensor]:
        """Return log p of each token of each candidate, end of turn included."""
        with self.in_place():
            return tokens_of(self, slate)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Keep the users' tokens in the loaded model meanwhile."""
        # Another scorer may share the loaded model, so the table is there while it is needed.
        users = self.users
        offsets = users.offsets if users is not None else self.policy.prior().states[STATE]
        numpy, local = import_torch().from_numpy, self.local.model
        with local.in_use(), local.turns.of():
            install(local.model, numpy(self.policy.generic), numpy(offsets))
            try:
                yield
            finally:
                uninstall(local.model)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the loaded model out and the users' states in."""
        if self.users is not None:
            _ = self.users.offsets
        return {**self.__dict__, "local": _unloaded(self.local)}


class ReferencePolicy(Autoregressive):
    """The reference's Σ log π_ref(y | x): no user in it, so all users share its numbers.

    It reads the tokens of the policy that it is compared with.
    """

    def __init__(
        self, reference: Reference, session: Session, settings: Settings, policy: LocalText
    ) -> None:
        spec = Spec(kind="autoregressive", reference=str(reference))
        super().__init__(spec, session, settings, policy)

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Read the slate as nobody's."""
        return super().prepare(slate.replace(user=None), dropped)

    def per_token(self, slate: Slate) -> list[torch.Tensor]:
        """Return log p of each token of each candidate, end of turn included."""
        return tokens_of(self, slate)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the loaded model out."""
        return {**self.__dict__, "local": _unloaded(self.local)}


def tokens_of(model: Autoregressive, slate: Slate) -> list[torch.Tensor]:
    """Return log p of each token of each candidate; raises `DataError` for one that is too long."""
    encoded = model.encoded(slate)
    local = model.local.model
    longest = max(len(ids) for ids, _ in encoded)
    if local.window is not None and longest > local.window:
        raise DataError(
            f"a conversation of {longest} tokens is longer than the window ({local.window})"
        )
    return next(logp for _, logp in local.log_probabilities([encoded]))


def _unloaded(text: LocalText) -> LocalText:
    other = None if text.reads_as is None else _unloaded(text.reads_as)
    return LocalText(text.reference, text.head, text.session, text.settings, other)
