"""A personal policy as a reward model: how much likelier it makes a response for this user."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from palate.errors import DataError, UsageError
from palate.learning import P_DPO, STATE, FromChoices, Joined, PersonalPolicy, Users, UserStates
from palate.learning.personal_policy import block, head, install, opening, uninstall, with_tokens
from palate.models import import_torch
from palate.prompts import prompt_hash
from palate.records import NO_STRANGER, Choice, Encoded, Prepared, Scores, Settings, Slate, unpacked
from palate.scorers.likelihood import Autoregressive, ScaledDifference
from palate.scorers.local_text import LocalText
from palate.scorers.state_options import OPTIONS, State, StatefulScorer
from palate.seeding import digest
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
        identity = self.users.content if self.users is not None else None
        what = f"{P_DPO} {policy.fingerprint} {state} {identity}"
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
        return [with_tokens(encoded, self.opening, tokens) for encoded in plain]

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
        places = [*todo]
        with self.in_place():
            results = list(super().score_prepared([*todo.values()]))
        return [(places[k], scores) for k, scores in results]

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

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Keep the users' tokens in the loaded model meanwhile."""
        # Another scorer may share the loaded model, so the table is there while it is needed.
        users = self.users
        states = self.policy.prior().states if users is None else users.states
        numpy, local = import_torch().from_numpy, self.local.model
        with local.in_use(), local.turns.of():
            install(local.model, numpy(self.policy.generic), numpy(states[STATE]))
            try:
                yield
            finally:
                uninstall(local.model)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the loaded model out and the users' states in."""
        if self.users is not None:
            _ = self.users.states
        return {**self.__dict__, "local": _unloaded(self.local)}


class ReferencePolicy(Autoregressive):
    """The reference's Σ log π_ref(y | x) of the policy's tokens, which all users share."""

    def __init__(
        self, reference: Reference, session: Session, settings: Settings, policy: LocalText
    ) -> None:
        spec = Spec(kind="autoregressive", reference=str(reference))
        super().__init__(spec, session, settings, policy)

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Read the slate as nobody's."""
        return super().prepare(slate.replace(user=None), dropped)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the loaded model out."""
        return {**self.__dict__, "local": _unloaded(self.local)}


class PersonalPolicyScorer(StatefulScorer[Users], ScaledDifference):
    """r_u(x, y) = β [log π(y | e_u, x) − log π_ref(y | x)] (P-DPO; Li et al. 2024).

    Options as of every personal reward model: `?state=own|stranger|prior`, `?users=FILE`,
    `?shots=k&repeat=r`, and `?minus=prior` for β [log π(y | e_u, x) − log π(y | e_0, x)]. Each
    state costs a reading, so `?state=stranger&draws=N` reads N third users a row, by default one.
    `?reference=` says where the model lies that the policy was trained from, if it was moved.
    """

    models: tuple[UserLikelihood, UserLikelihood | ReferencePolicy]
    scale_pairs = 20
    """Pairs that a user's confidence is measured on: each costs two readings for each user."""

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.only({*OPTIONS, "reference"})
        folder = Path(spec.need_reference("personal:./models/p-dpo")).expanduser()
        self.policy = PersonalPolicy.load(folder)
        self.beta = self.policy.beta
        self.reference = self.policy.reference(spec.options.get("reference"))
        super().__init__(spec, session, settings)
        self.draws = self.wanted.draws
        self.canonical = str(spec.having(draws=str(self.draws) if self.draws > 1 else None))
        if self.wanted.users is not None:
            self.users = UserStates.load(self.wanted.users, self.policy.fingerprint)
        self._compose()

    def adapted(self, history: Mapping[str, Sequence[Choice]]) -> PersonalPolicyScorer:
        """Return this scorer with a state for each user (id → their earlier choices).

        Users who joined stay. Raises `UsageError` where users joined a scorer that was adapted.
        """
        learnt = self._learnt(history)
        if not self.live or self.users is None:
            return self.with_users(learnt, frozenset())
        if self.known:
            raise UsageError("p-dpo: adapt it first and join users then, or build it anew")
        return self.with_users(Joined(learnt, self.users), self.live)

    def join(self, choices: Mapping[str, Sequence[Choice]]) -> PersonalPolicyScorer:
        """Return this scorer with these users added, as `Personal.join` does."""
        new = self._learnt(choices)
        users = new if self.users is None else Joined(self.users, new)
        return self.with_users(users, self.live | set(new.place))

    @property
    def trained_on(self) -> frozenset[str]:
        """Keys of the users it was trained on."""
        return self.policy.trained_on

    def token_rewards(self, slate: Slate) -> list[tuple[float, ...]]:
        """Return each token's reward, whose sum is the score; raises `DataError` past a window."""
        read = self.prepare(slate).slate
        personal, plain = (tokens_of(model, model.prepare(read).slate) for model in self.models)
        return [
            tuple((self.policy.beta * (a.double() - b.double())).tolist())
            for a, b in zip(personal, plain, strict=True)
        ]

    def notes(self) -> tuple[str, ...]:
        """Say how large a state is, and where a model is read in padded batches."""
        notes = super().notes()
        if self.users is None or self.state == "prior":
            return notes
        size, lost = self.policy.generic.nbytes, self.users.n_too_long
        too_long = f"; {lost:,} choices were too long for the model" if lost else ""
        return (*notes, f"{P_DPO}: {size:,} bytes of state per user{too_long}")

    def _learnt(self, choices: Mapping[str, Sequence[Choice]]) -> FromChoices:
        shots = self.shots(choices)
        return FromChoices(self.policy, self.reference, shots, self.session, self.settings)

    def with_users(self, users: Users, live: frozenset[str]) -> Self:
        """Return this scorer with these users' states, its two models made anew."""
        copy = super().with_users(users, live)
        copy._compose()
        return copy

    def _compose(self) -> None:
        shared = self.policy, self.session, self.settings
        policy = UserLikelihood(*shared, self.state, self.users)
        taken_off: UserLikelihood | ReferencePolicy
        if self.minus:
            taken_off = UserLikelihood(*shared, "prior", None)
            taken_off.local = policy.local  # one tokenizer reads each text once for both
        else:
            taken_off = ReferencePolicy(self.reference, *shared[1:], policy.local)
        self.compose((policy, taken_off))
        prints = [model.info.fingerprint for model in self.models]
        details = {
            "method": P_DPO,
            "model": self.policy.fingerprint,
            "tokens": self.policy.tokens,
            "policy": policy.info.details,
            "taken off": taken_off.info.details,
        }
        made = digest(P_DPO, self.policy.beta, *prints)
        changed = {"fingerprint": made, "log_odds": not self.minus, "details": details}
        self.info = policy.info.model_copy(update=changed)


def tokens_of(model: Autoregressive, slate: Slate) -> list[torch.Tensor]:
    """Return log p of each candidate's tokens and end; raises `DataError` where it is too long."""
    encoded = model.encoded(slate)
    local = model.local.model
    longest = max(len(ids) for ids, _ in encoded)
    if local.window is not None and longest > local.window:
        window = f"the window ({local.window})"
        raise DataError(f"a conversation of {longest} tokens is longer than {window}")
    with model.in_place():
        return next(logp for _, logp in local.log_probabilities([encoded]))


def _unloaded(text: LocalText) -> LocalText:
    other = None if text.reads_as is None else _unloaded(text.reads_as)
    return LocalText(text.reference, text.head, text.session, text.settings, other)
