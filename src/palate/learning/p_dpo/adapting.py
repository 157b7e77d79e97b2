"""A user's own soft tokens from their choices, everything else frozen."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from palate.engines.local.memory import within_memory
from palate.learning.p_dpo.encoding import Fitting, encode_choices
from palate.learning.p_dpo.folder import STATE, PersonalPolicy
from palate.learning.personal.choices import Doubles, Whole
from palate.learning.personal.states import UserStates, concatenated
from palate.learning.recipes.tuning import EncodedChoice
from palate.learning.recipes.user_tokens import (
    block,
    install,
    opening,
    response_log_probs,
    uninstall,
    with_tokens,
)
from palate.learning.solvers.quasi_newton import minimise_each
from palate.models import choose_device, choose_dtype, import_torch
from palate.records import Choice, Progress, Settings
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference

LOG = logging.getLogger("palate")
AT_ONCE = 16
"""Users adapted side by side, and kept together."""
TOKENS = 2048
"""Most tokens that gradients are taken of at a time."""
FORMAT = 3
"""Raised when adapting computes something else."""


class _Row(NamedTuple):
    user: int
    choice: EncodedChoice
    reference: float
    """log π_ref of the chosen response minus that of the rejected one."""


def adapt(
    policy: PersonalPolicy,
    history: Mapping[str, Sequence[Choice]],
    session: Session,
    settings: Settings,
    reference: Reference | None = None,
    progress: Progress | None = None,
) -> UserStates:
    """Return o_u for each user (key → choices): the most likely one under a Gaussian prior.

    o_u minimises Σ −log σ(β [Δ log π − Δ log π_ref]) + |o_u / unit|² / (2 prior_std²), from
    o_u = 0, which it stays without choices. Users are independent of each other; sixteen at a time
    are read together and kept in the store, so the same choices are learnt once.

    Raises:
        ModelError: where the reference is not the model that the policy was trained from.
        ResourceError: where memory runs out.
    """
    base = reference or policy.reference()
    fitting = encode_all(policy, history, session, settings, base)
    keys = list(history)
    if not keys:
        return policy.prior()
    device = choose_device(settings.device)
    how = (
        FORMAT,
        policy.fingerprint,
        str(choose_dtype(settings.dtype, device)),
        device.split(":")[0],
    )
    groups = [keys[k : k + AT_ONCE] for k in range(0, len(keys), AT_ONCE)]
    names = [digest(*how, [(key, fitting.choices[key]) for key in group]) for group in groups]
    documents = session.store.documents("states")
    known = {
        name: UserStates.of_bytes(earlier, "the store", policy.fingerprint)
        for name in names
        if (earlier := documents.get(name)) is not None
    }
    todo = [(name, group) for name, group in zip(names, groups, strict=True) if name not in known]
    done = len(keys) - sum(len(group) for _, group in todo)
    if todo:
        LOG.info("learning the tokens of %d users", len(keys) - done)
        choices = {name: [fitting.choices[key] for key in group] for name, group in todo}
        # Of each group by itself: what else is learnt in this call would round it differently.
        sums = {
            name: _reference_sums(base, [it for listed in of for it in listed], session, settings)
            for name, of in choices.items()
        }
        start = opening(session.reader(policy.policy, settings).template)
        job = _Adaptation(policy, session, settings, start)
        for name, group in todo:
            known[name] = job.adapted(group, choices[name], sums[name])
            documents.put(name, known[name].to_bytes())
            done += len(group)
            if progress is not None:
                progress(done, len(keys))
    found = concatenated([known[name] for name in names])
    return UserStates(found.keys, found.states, found.model, fitting.n_too_long)


def encode_all(
    policy: PersonalPolicy,
    history: Mapping[str, Sequence[Choice]],
    session: Session,
    settings: Settings,
    reference: Reference,
) -> Fitting:
    """Encode users' choices; those that do not fit both windows beside the tokens are counted."""
    reader = session.reader(policy.policy, settings)
    limits = [one.window for one in (reader, session.reader(reference, settings)) if one.window]
    limit = min(limits, default=float("inf")) - policy.tokens
    return encode_choices(reader.template, history, limit)


def _reference_sums(
    base: Reference, choices: Sequence[EncodedChoice], session: Session, settings: Settings
) -> dict[EncodedChoice, float]:
    distinct = list(dict.fromkeys(choices))
    if not distinct:
        return {}
    model = session.model(base, "causal", settings)
    groups = [[choice.chosen, choice.rejected] for choice in distinct]
    found = dict(model.log_probabilities(groups))
    sums = ([float(logp.double().sum()) for logp in found[k]] for k in range(len(distinct)))
    return {it: chosen - rejected for it, (chosen, rejected) in zip(distinct, sums, strict=True)}


@dataclass(frozen=True)
class _Adaptation:
    """The policy with its weights frozen, asked for losses and slopes of users' tokens."""

    policy: PersonalPolicy
    session: Session
    settings: Settings
    opening: tuple[int, ...]

    def adapted(
        self,
        keys: Sequence[str],
        choices: Sequence[Sequence[EncodedChoice]],
        sums: Mapping[EncodedChoice, float],
    ) -> UserStates:
        start = np.zeros((len(keys), self.policy.generic.size))
        if any(choices):
            local = self.session.model(self.policy.policy, "causal", self.settings)
            model = local.model
            rows = [_Row(user, it, sums[it]) for user, own in enumerate(choices) for it in own]
            objective = _Objective(model, self.policy, self.opening, rows)
            out_of_memory = "out of memory while adapting; leave long choices out"
            with local.in_use(), local.turns.of(), within_memory(out_of_memory):
                model.requires_grad_(False)
                try:
                    start, _ = minimise_each(objective, start)
                finally:
                    uninstall(model)
        offsets = start.reshape(len(keys), *self.policy.generic.shape)
        scaled = (offsets * self.policy.prior_std * self.policy.unit).astype(np.float32)
        return UserStates(tuple(keys), {STATE: scaled}, self.policy.fingerprint)


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
