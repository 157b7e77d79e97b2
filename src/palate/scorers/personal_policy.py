"""A personal policy as a reward model: how much likelier it makes a response for this user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from palate.errors import UsageError
from palate.learning.p_dpo import METHOD, FromChoices, FromFile, Joined, PersonalPolicy, Users
from palate.learning.personal import UserStates
from palate.records import Choice, Settings, Slate
from palate.scorers.lift import ScaledDifference
from palate.scorers.state_options import OPTIONS, StatefulScorer
from palate.scorers.user_likelihood import ReferencePolicy, UserLikelihood
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec


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
            states = UserStates.load(self.wanted.users, self.policy.fingerprint)
            self.users = FromFile(states)
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
        """Return the reward of each token of each candidate; a candidate's sum to its score.

        Both models split a response into the same tokens. Raises `DataError` where one is longer
        than a window.
        """
        read = self.prepare(slate).slate
        personal, plain = (model.per_token(model.prepare(read).slate) for model in self.models)
        return [
            tuple((self.policy.beta * (a.double() - b.double())).tolist())
            for a, b in zip(personal, plain, strict=True)
        ]

    def notes(self) -> tuple[str, ...]:
        """Say how large a state is, and where a model is read in padded batches."""
        notes = super().notes()
        if self.users is not None and self.state != "prior":
            lost = self.users.n_too_long
            too_long = f"; {lost:,} choices were too long for the model" if lost else ""
            each = self.policy.generic.nbytes
            notes = (*notes, f"{METHOD}: {each:,} bytes of state per user{too_long}")
        return notes

    def _learnt(self, choices: Mapping[str, Sequence[Choice]]) -> FromChoices:
        return FromChoices(
            self.policy, self.reference, self.shots(choices), self.session, self.settings
        )

    def with_users(self, users: Users, live: frozenset[str]) -> Self:
        """Return this scorer with these users' states, its two models made anew."""
        copy = super().with_users(users, live)
        copy._compose()
        return copy

    def _compose(self) -> None:
        policy = UserLikelihood(self.policy, self.session, self.settings, self.state, self.users)
        taken_off: UserLikelihood | ReferencePolicy = (
            UserLikelihood(self.policy, self.session, self.settings, "prior", None)
            if self.minus
            else ReferencePolicy(self.reference, self.session, self.settings, policy.local)
        )
        if self.minus:
            taken_off.local = policy.local  # one tokenizer reads each text once for both
        self.compose((policy, taken_off))
        prints = [model.info.fingerprint for model in self.models]
        details = {
            "method": METHOD,
            "model": self.policy.fingerprint,
            "tokens": self.policy.tokens,
            "policy": policy.info.details,
            "taken off": taken_off.info.details,
        }
        self.info = policy.info.model_copy(
            update={
                "fingerprint": digest(METHOD, self.policy.beta, *prints),
                "log_odds": not self.minus,
                "details": details,
            }
        )
