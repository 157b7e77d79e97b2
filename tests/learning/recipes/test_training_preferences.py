"""The loss of P-DPO as TRL computes it, against the formula on plain forwards."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from palate.learning.p_dpo import PreferenceOptions, SoftTokens, train_p_dpo, trainer_class
from palate.learning.personal_policy import STATE, PersonalPolicy
from palate.learning.states import UserStates
from palate.records import Settings, user_key
from palate.session import default_session
from palate.specs import Reference
from policies import choice, plainly
from tasks import task
from tiny import ENDS_WITH_EOS, make_slate

SETTINGS = Settings(dtype="float32", device="cpu")
HISTORY = {f"u{k}": [choice(k + j, j == 2) for j in range(3)] for k in range(4)}
FAST = {"dtype": "float32", "device": "cpu", "batch_pairs": 12, "learning_rate": 1e-2}
OPTIONS = PreferenceOptions(tokens=2, rate=0.05)


@pytest.fixture(scope="module")
def base(tiny):
    return Reference.parse(tiny.model(template=ENDS_WITH_EOS, tie_word_embeddings=True))


@pytest.fixture(scope="module")
def trained(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "p"
    return train_p_dpo(HISTORY, task((), base, folder, **asdict(OPTIONS), steps=3, **FAST))


def test_the_first_loss_is_the_formula_on_plain_forwards(trained, base, tmp_path):
    start, once = (
        train_p_dpo(HISTORY, task((), base, tmp_path / str(n), **asdict(OPTIONS), steps=n, **FAST))
        for n in (0, 1)
    )
    policy = PersonalPolicy.load(start.folder)
    model = default_session().model(base, "causal", SETTINGS).model
    losses = []
    for one in (one for listed in HISTORY.values() for one in listed):
        slate = make_slate(one.chosen, one.rejected, question=one.question)
        ours = plainly(model, base.name, slate, policy.generic)
        theirs = plainly(model, base.name, slate)
        margin = OPTIONS.beta * (ours[0] - ours[1] - theirs[0] + theirs[1])
        losses.append(np.logaddexp(0, -margin))
    # Before the first step every user is the generic one, so both terms are the same.
    assert once.losses == pytest.approx([np.mean(losses)], abs=1e-4)
    assert np.std(losses) > 0.01
    assert len(trained.losses) == 3 and trained.losses[-1] != trained.losses[0]


def test_known_and_generic_users_and_the_prior_are_weighed_as_written(monkeypatch):
    import trl

    told = []

    def counted(self, model, inputs, *given, **more):
        told.append(inputs["input_ids"].tolist())
        return inputs["input_ids"].double().sum()

    monkeypatch.setattr(trl.DPOTrainer, "compute_loss", counted)
    from palate.learning.personal_policy import install

    class Model:
        words = torch.nn.Embedding(50, 4)

        def get_input_embeddings(self):
            return self.words

        def set_input_embeddings(self, module):
            self.module = module

    model = Model()
    offsets = torch.arange(3 * 2 * 4.0).reshape(3, 2, 4)
    install(model, torch.zeros(2, 4), offsets)
    kind = trainer_class()
    trainer = object.__new__(kind)
    trainer.module = model.module
    trainer.tokens = SoftTokens(
        None, (5, 1, 2), (), 1.0, PreferenceOptions(alpha=0.3, prior_std=2.0, rate=1.0)
    )
    trainer.shares = torch.tensor([0.0, 1 / 5, 1.0, 1 / 2])
    ids = torch.tensor([[7, 52, 53, 8], [7, 56, 57, 0]])  # users 1 and 3
    found = trainer.compute_loss(None, {"input_ids": ids, "attention_mask": None})
    generic = [[7, 50, 51, 8], [7, 50, 51, 0]]
    assert told == [ids.tolist(), generic]
    own = [float(offsets[k].square().sum()) for k in (0, 2)]
    prior = (own[0] / 5 + own[1] / 2) / 2 / (2 * 2.0**2)
    expected = 0.3 * (float(ids.sum()) + prior) + 0.7 * float(torch.tensor(generic).sum())
    assert float(found.detach()) == pytest.approx(expected)


def test_what_was_trained_lies_in_the_folder_and_the_base_is_untouched(trained, base):
    policy = PersonalPolicy.load(trained.folder)
    facts = json.loads((trained.folder / "palate.json").read_text())
    assert str(trained.folder.parent) not in json.dumps(facts)
    assert facts["n_choices"] == 12 and facts["steps"] == 3 and facts["dtype"] == "float32"
    assert facts["users"] == [user_key(user) for user in HISTORY]
    assert {f.name for f in trained.folder.iterdir()} == {
        "palate.json", "policy", "users.safetensors"
    }  # fmt: skip
    states = UserStates.load(trained.folder / "users.safetensors", policy.fingerprint)
    assert states.keys == tuple(facts["users"])
    sizes = np.linalg.norm(states.states[STATE].reshape(4, -1), axis=1)
    assert (sizes > 0).all()
    made = default_session().model(policy.policy, "causal", SETTINGS).model
    words = default_session().model(base, "causal", SETTINGS).model.get_input_embeddings().weight
    assert torch.equal(made.get_input_embeddings().weight, words)
    assert made.get_output_embeddings().weight is made.get_input_embeddings().weight
    moved = [
        not a.equal(b)
        for (name, a), b in zip(
            made.named_parameters(),
            default_session().model(base, "causal", SETTINGS).model.parameters(),
            strict=True,
        )
        if "proj" in name
    ]
    assert all(moved)


def test_without_the_generic_term_everybody_learns_from_known_users_alone(base, tmp_path):
    some = {"u": [choice(1)] * 4, "v": [choice(1, True)] * 4}
    given = {**FAST, "steps": 12, "batch_pairs": 8, "learning_rate": 1e-3}
    made = train_p_dpo(some, task((), base, tmp_path / "p", tokens=2, alpha=1.0, **given))
    assert np.mean(made.losses[-3:]) < np.mean(made.losses[:3])
