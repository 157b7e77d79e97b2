"""Planted tastes: a tiny language model must find them, for users seen and new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit

from palate.learning.p_dpo import train_p_dpo
from palate.learning.personal_policy import USERS, PersonalPolicy
from palate.learning.policy_users import adapt_policy
from palate.learning.states import UserStates
from palate.records import Choice, Message, Settings, Slate, user_key
from palate.scorers import build_scorer
from palate.seeding import rng
from palate.session import default_session
from palate.specs import Reference
from tasks import task
from tiny import ENDS_WITH_EOS

SETTINGS = Settings(dtype="float32", device="cpu")
LIVING, MADE = ["water", "health", "child", "world"], ["system", "data", "process", "result"]
QUESTIONS = ("What should they make?", "When will they work?", "Where is the water?",
             "Which people need help?")  # fmt: skip
SHARE = 0.85
"""Of the true rewards' accuracy above chance."""
LEARNT, TESTED = 16, 24
History = Mapping[str, Sequence[Choice]]


class World(NamedTuple):
    learnt: History
    test: History
    oracle: float


def world(name: str, users: int, *, personal: bool) -> World:
    """Half the users like words of one kind, half of the other; or all like the first.

    A response is liked by 2 for each such word; a choice is drawn from σ(difference).
    """
    stream = rng("p-dpo world", name)
    drawn: dict[str, list[Choice]] = {}
    right = []
    for k in range(users):
        sign = -1 if personal and k % 2 else 1
        own = drawn.setdefault(f"{name}-{k}", [])
        while len(own) < LEARNT + TESTED:
            words = [stream.choice(LIVING + MADE, 3).tolist() for _ in range(2)]
            first, second = (sum(word in LIVING for word in some) for some in words)
            if first == second:
                continue
            apart = 2 * sign * (first - second)
            kept = stream.random() < expit(apart)
            right.append(kept == (apart > 0))
            one, other = (f"The {' '.join(some)}" for some in words)
            one, other = (one, other) if kept else (other, one)
            question = QUESTIONS[stream.integers(len(QUESTIONS))]
            own.append(Choice(question=question, chosen=one, rejected=other))
    learnt, test = ({user: listed[part] for user, listed in drawn.items()}
                    for part in (slice(LEARNT), slice(LEARNT, None)))  # fmt: skip
    return World(learnt, test, float(np.mean(right)))


def accuracy(spec: str, test: History, learnt: History | None = None) -> float:
    scorer = build_scorer(spec, default_session(), SETTINGS)
    if learnt is not None:
        scorer = scorer.adapted(learnt)
    known = "state=prior" not in spec
    slates = [
        Slate(
            question=(Message(role="user", content=one.question),),
            candidates=(one.chosen, one.rejected),
            user=user_key(user) if known else None,
        )
        for user, listed in test.items()
        for one in listed
    ]
    margins = [scores.values[0] - scores.values[1] for _, scores in scorer.score(slates)]
    return float(np.mean(np.sign(margins) + 1) / 2)


def trained(tiny, folder, seen: World) -> str:
    base = tiny.model(
        template=ENDS_WITH_EOS, hidden_size=64, intermediate_size=128, initializer_range=0.05,
        tie_word_embeddings=True,
    )  # fmt: skip
    how = {"tokens": 4, "steps": 300, "learning_rate": 2e-3, "dtype": "float32", "device": "cpu"}
    train_p_dpo(seen.learnt, task((), Reference.parse(base), folder, **how))
    return f"personal:{folder}"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))


def test_opposite_tastes_are_found_for_users_seen_and_new(tiny, tmp_path):
    seen, new = world("seen", 30, personal=True), world("new", 16, personal=True)
    spec = trained(tiny, tmp_path / "p", seen)
    own = {
        "seen, as trained": (accuracy(f"{spec}?users={tmp_path}/p/{USERS}", seen.test), seen),
        "seen, adapted": (accuracy(spec, seen.test, seen.learnt), seen),
        "new, adapted": (accuracy(spec, new.test, new.learnt), new),
    }
    shares = {name: (got - 0.5) / (of.oracle - 0.5) for name, (got, of) in own.items()}
    assert min(shares.values()) >= SHARE, shares
    prior = accuracy(f"{spec}?state=prior", new.test)
    assert abs(prior - 0.5) < 0.08, "one generic user cannot know"
    assert accuracy(f"{spec}?shots=0", new.test, new.learnt) == prior
    few = accuracy(f"{spec}?shots=3", new.test, new.learnt)
    assert prior + 0.1 < few < own["new, adapted"][0]
    policy = PersonalPolicy.load(tmp_path / "p")
    states = adapt_policy(
        policy,
        {user_key(user): own for user, own in new.learnt.items()},
        default_session(),
        SETTINGS,
    )
    keys = (*states.keys[1:], states.keys[0])
    UserStates(keys, states.states, states.model).save(tmp_path / "turned.safetensors")
    turned = accuracy(f"{spec}?users={tmp_path}/turned.safetensors", new.test)
    assert turned < 0.3, "the neighbour likes the opposite"


def test_where_all_are_alike_a_state_of_ones_own_costs_nothing(tiny, tmp_path):
    seen, new = world("alike", 30, personal=False), world("alike, new", 16, personal=False)
    spec = trained(tiny, tmp_path / "p", seen)
    for part in (seen, new):
        generic = accuracy(f"{spec}?state=prior", part.test)
        assert generic - 0.5 >= SHARE * (part.oracle - 0.5)
        assert accuracy(spec, part.test, part.learnt) >= generic - 0.01
