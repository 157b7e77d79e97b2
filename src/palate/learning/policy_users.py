"""Users of a personal policy: their own soft tokens from choices, everything else frozen."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from palate.engines import within_memory
from palate.learning.choices import Doubles, Whole
from palate.learning.encoding import EncodedChoice, encode_choices
from palate.learning.personal_policy import (
    STATE,
    PersonalPolicy,
    block,
    install,
    opening,
    response_log_probs,
    uninstall,
    with_tokens,
)
from palate.learning.solvers import minimise_each
from palate.learning.states import History, States, UserStates, concatenated
from palate.models import choose_device, choose_dtype, import_torch
from palate.records import Progress, Settings
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference

LOG = logging.getLogger("palate")
AT_ONCE = 16
"""Users adapted side by side, and kept together."""
TOKENS = 2048
"""Most tokens that gradients are taken of at a time."""
FORMAT = 4
"""Raised when adapting computes something else."""


class _Row(NamedTuple):
    user: int
    choice: EncodedChoice
    reference: float
    """log π_ref of the chosen response minus that of the rejected one."""


def adapt_policy(
    policy: PersonalPolicy,
    history: History,
    session: Session,
    settings: Settings,
    reference: Reference | None = None,
    progress: Progress | None = None,
) -> UserStates:
    """Return o_u for each user (key → choices): the most likely one under a Gaussian prior.

    o_u minimises Σ −log σ(β [Δ log π − Δ log π_ref]) + |o_u / unit|² / (2 prior_std²), from o_u =
    0, which it stays without choices. Users are independent of each other; sixteen at a time are
    read together and kept in the store, so the same choices are learnt once. Raises `ModelError`
    for another reference than the policy's, and `ResourceError` where memory runs out.
    """
    base = reference or policy.reference()
    fitting, n_too_long = encode_all(policy, history, session, settings, base)
    keys = list(history)
    if not keys:
        return policy.prior()
    device = choose_device(settings.device)
    dtype, processor = str(choose_dtype(settings.dtype, device)), device.split(":")[0]
    compiled = session.reader(base, settings).compile_details.values()
    how = (dtype, processor, *compiled)
    groups = {}
    for first in range(0, len(keys), AT_ONCE):
        group = {key: fitting[key] for key in keys[first : first + AT_ONCE]}
        groups[digest(FORMAT, policy.fingerprint, *how, list(group.items()))] = group
    documents = session.store.documents("states")
    known = {
        name: UserStates.of_bytes(earlier, "the store", policy.fingerprint)
        for name in groups
        if (earlier := documents.get(name)) is not None
    }
    todo = {name: group for name, group in groups.items() if name not in known}
    done = len(keys) - sum(map(len, todo.values()))
    if todo:
        LOG.info("learning the tokens of %d users", len(keys) - done)
        # Of each group by itself: what else is learnt in this call would round it differently.
        sums = {
            name: _reference_sums(base, list(chain(*group.values())), session, settings)
            for name, group in todo.items()
        }
        for name, group in todo.items():
            known[name] = _adapted(policy, group, sums[name], session, settings)
            documents.put(name, known[name].to_bytes())
            done += len(group)
            if progress is not None:
                progress(done, len(keys))
    states = concatenated([known[name] for name in groups])
    return replace(states, n_too_long=n_too_long)


def encode_all(
    policy: PersonalPolicy, history: History, session: Session, settings: Settings, base: Reference
) -> tuple[dict[str, list[EncodedChoice]], int]:
    """Encode users' choices; those that do not fit both windows beside the tokens are counted."""
    reader = session.reader(policy.policy, settings)
    windows = (reader.window, session.reader(base, settings).window)
    limit = min(filter(None, windows), default=math.inf) - policy.tokens
    return encode_choices(reader.template, history, limit)


def _reference_sums(
    base: Reference, choices: Sequence[EncodedChoice], session: Session, settings: Settings
) -> dict[EncodedChoice, float]:
    distinct = list(dict.fromkeys(choices))
    if not distinct:
        return {}
    model = session.model(base, "causal", settings)
    groups = [[choice.chosen, choice.rejected] for choice in distinct]
    read = dict(model.log_probabilities(groups))
    sums = ([float(logp.double().sum()) for logp in read[k]] for k in range(len(distinct)))
    return {choice: won - lost for choice, (won, lost) in zip(distinct, sums, strict=True)}


def _adapted(
    policy: PersonalPolicy,
    group: Mapping[str, Sequence[EncodedChoice]],
    sums: Mapping[EncodedChoice, float],
    session: Session,
    settings: Settings,
) -> UserStates:
    """Learn the tokens of a group of users, the policy's weights frozen."""
    points = np.zeros((len(group), policy.generic.size))
    rows = [
        _Row(user, choice, sums[choice])
        for user, listed in enumerate(group.values())
        for choice in listed
    ]
    if rows:
        start = opening(session.reader(policy.policy, settings).template)
        local = session.model(policy.policy, "causal", settings)
        objective = _Objective(local.model, policy, start, rows)
        out_of_memory = "out of memory while adapting; leave long choices out"
        with local.in_use(), local.turns.of(), within_memory(out_of_memory):
            local.model.requires_grad_(False)
            try:
                points, _ = minimise_each(objective, points)
            finally:
                uninstall(local.model)
    offsets = points.reshape(len(group), *policy.generic.shape)
    scaled = (offsets * policy.prior_std * policy.unit).astype(np.float32)
    return UserStates(tuple(group), {STATE: scaled}, policy.fingerprint)


class _Objective:
    """−log posterior of o_u / (prior_std · unit) and its slope, for some of the users."""

    def __init__(
        self, model: Any, policy: PersonalPolicy, opening: tuple[int, ...], rows: Sequence[_Row]
    ) -> None:
        self.model, self.policy, self.opening, self.torch = model, policy, opening, import_torch()
        self.rows = sorted(rows, key=lambda row: -row.choice.width)
        self.generic = self.torch.from_numpy(policy.generic)

    def __call__(self, which: Whole, points: Doubles) -> tuple[Doubles, Doubles]:
        torch, policy = self.torch, self.policy
        shape = (len(which), *policy.generic.shape)
        offsets = torch.from_numpy(points.astype(np.float32).reshape(shape))
        module = install(self.model, self.generic, offsets, policy.prior_std * policy.unit)
        module.generic.requires_grad_(False)
        place = {int(user): k for k, user in enumerate(which)}
        values = (points**2).sum(axis=1) / 2
        for batch in self._batches([row for row in self.rows if row.user in place]):
            users = [place[row.user] for row in batch]
            losses = torch.nn.functional.softplus(-self._margins(batch, users))
            losses.sum().backward()
            np.add.at(values, users, losses.detach().double().cpu().numpy())
        slope = module.offsets.grad
        pulled = 0.0 if slope is None else slope.double().cpu().numpy().reshape(points.shape)
        return values, points + pulled

    def _margins(self, batch: Sequence[_Row], users: Sequence[int]) -> Any:
        first, tokens = self.policy.first, self.policy.tokens
        sides = [
            with_tokens(side, self.opening, block(first, tokens, user + 1))
            for listed in ([row.choice.chosen for row in batch], [r.choice.rejected for r in batch])
            for side, user in zip(listed, users, strict=True)
        ]
        chosen, rejected = response_log_probs(self.model, sides).chunk(2)
        theirs = self.torch.tensor([row.reference for row in batch], device=chosen.device)
        return self.policy.beta * (chosen - rejected - theirs)

    def _batches(self, rows: Sequence[_Row]) -> Iterator[list[_Row]]:
        batch: list[_Row] = []
        for row in rows:  # longest first
            wide = (batch or [row])[0].choice.width + self.policy.tokens
            if batch and 2 * (len(batch) + 1) * wide > TOKENS:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch


class FromChoices:
    """States that are learnt when they are first needed: a finished run needs none."""

    def __init__(
        self,
        policy: PersonalPolicy,
        reference: Reference,
        history: History,
        session: Session,
        settings: Settings,
    ) -> None:
        self._learnt_from = policy, history, session, settings, reference
        self.place: Mapping[str, int] = {key: k for k, key in enumerate(history)}
        chosen = {key: [it.model_dump() for it in listed] for key, listed in history.items()}
        self.content = digest("choices", FORMAT, chosen)

    @cached_property
    def states(self) -> States:
        """Learn o_u of each user, all in one job."""
        return adapt_policy(*self._learnt_from).states

    @property
    def n_too_long(self) -> int:
        """How many choices are longer than the window."""
        return encode_all(*self._learnt_from)[1]


class Joined:
    """Users, and others who joined them; who is in both has the state of the others."""

    def __init__(self, users: Users, others: Users) -> None:
        self.users, self.others = users, others
        n = len(users.place)
        moved = {key: n + k for key, k in others.place.items()}
        self.place: Mapping[str, int] = {**users.place, **moved}
        self.content: str = digest("joined", users.content, others.content)

    @cached_property
    def states(self) -> States:
        """o_u of all, the others' last."""
        both = self.users.states[STATE], self.others.states[STATE]
        return {STATE: np.concatenate(both)}

    @property
    def n_too_long(self) -> int:
        """How many choices were left out."""
        return self.users.n_too_long + self.others.n_too_long


Users = UserStates | FromChoices | Joined
"""The users that a personal policy is read with, a state each."""
