"""What a user's own tokens are learnt to be, and that nobody else's choices touch them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from palate.engines import LocalModel
from palate.errors import DataError, UsageError
from palate.learning import policy_users
from palate.learning.p_dpo import PreferenceOptions, train_p_dpo
from palate.learning.personal_policy import STATE, PersonalPolicy, opening
from palate.learning.policy_users import adapt_policy, encode_all
from palate.learning.states import UserStates
from palate.records import Choice, Message, Settings, Slate
from palate.session import default_session
from palate.specs import Reference
from policies import TOKENS, choice, plainly, untrained
from tasks import task
from tiny import ENDS_WITH_EOS

SETTINGS = Settings(dtype="float32", device="cpu")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def made(tiny, tmp_path_factory):
    return untrained(tiny, tmp_path_factory.mktemp("policies") / "p")


def adapted(policy: PersonalPolicy, history: dict[str, list[Choice]], **more: Any) -> UserStates:
    return adapt_policy(policy, history, default_session(), SETTINGS, **more)


def learnt(policy: PersonalPolicy, **history: list[Choice]) -> np.ndarray:
    return adapted(policy, history).states[STATE]


def slate_of(one: Choice) -> Slate:
    return Slate(question=one.messages, candidates=(one.chosen, one.rejected))


def after_turns(one: Choice) -> Choice:
    turns = Message(role="user", content="Hi."), Message(role="assistant", content="Yes?")
    return one.model_copy(update={"turns": turns})


def margin(made, tiny, one: Choice, offset: np.ndarray) -> float:
    """β [Δ log π(e_0 + offset) − Δ log π_ref], by plain forwards."""
    policy, adapted = made
    base = tiny.model(template=ENDS_WITH_EOS)
    reference = default_session().model(Reference.parse(base), "causal", SETTINGS).model
    ours = plainly(adapted, base, slate_of(one), policy.generic + offset)
    theirs = plainly(reference, base, slate_of(one))
    return policy.beta * (ours[0] - ours[1] - theirs[0] + theirs[1])


def objective_of(policy: PersonalPolicy, *choices: Choice) -> policy_users._Objective:
    base = policy.reference()
    history = {"u": list(choices)}
    encoded = encode_all(policy, history, default_session(), SETTINGS, base)[0]["u"]
    sums = policy_users._reference_sums(base, encoded, default_session(), SETTINGS)
    local = default_session().model(policy.policy, "causal", SETTINGS)
    rows = [policy_users._Row(0, it, sums[it]) for it in encoded]
    return policy_users._Objective(
        local.model.requires_grad_(False), policy, opening(local_template(policy)), rows
    )


def local_template(policy):
    from palate.engines import Reader

    return Reader(policy.policy, SETTINGS).template


def test_the_loss_is_the_posterior_and_its_slope_is_its_slope(made, tiny):
    policy, _ = made
    some = [choice(1), choice(2), choice(4, True), after_turns(choice(5))]
    objective = objective_of(policy, *some)
    z = np.random.default_rng(0).normal(size=(1, policy.generic.size))
    ((value,), (slope,)) = objective(np.array([0]), z)
    offset = (z * policy.prior_std * policy.unit).reshape(policy.generic.shape).astype(np.float32)
    losses = [np.logaddexp(0, -margin(made, tiny, one, offset)) for one in some]
    assert value == pytest.approx(sum(losses) + (z**2).sum() / 2, abs=1e-3)
    stream = np.random.default_rng(1)
    for direction in stream.normal(size=(3, *z.shape)):
        step = 1e-2 * direction
        up, down = (objective(np.array([0]), z + sign * step)[0][0] for sign in (1, -1))
        assert (up - down) / 2 == pytest.approx(float((step * slope).sum()), rel=0.02, abs=1e-3)


def test_what_is_found_is_a_minimum(made):
    policy, _ = made
    some = [choice(k) for k in range(6)]
    found = learnt(policy, u=some) / policy.prior_std / policy.unit
    objective = objective_of(policy, *some)
    z = found.reshape(1, -1).astype(np.float64)
    ((value,), slope) = objective(np.array([0]), z)
    ((start,), first) = objective(np.array([0]), np.zeros_like(z))
    assert value < start
    assert np.linalg.norm(slope) < 0.1 * np.linalg.norm(first)
    for direction in np.random.default_rng(2).normal(size=(5, *z.shape)):
        assert objective(np.array([0]), z + 0.05 * direction)[0][0] > value


def test_no_choices_are_everybodys_and_few_move_less_than_many(made, tiny):
    policy, _ = made
    one, many = [choice(1)], [choice(1)] * 12
    found = learnt(policy, none=[], one=one, many=many, turned=[choice(1, True)] * 12)
    sizes = np.linalg.norm(found.reshape(4, -1), axis=1)
    assert sizes[0] == 0.0 < sizes[1] < sizes[2]
    before, after_one, after_many, turned = (margin(made, tiny, choice(1), own) for own in found)
    assert turned < before < after_one < after_many


def test_contradictory_choices_say_that_the_user_does_not_mind(made, tiny):
    policy, _ = made
    torn = learnt(policy, u=[choice(1), choice(1, True)] * 6)[0]
    before = margin(made, tiny, choice(1), np.zeros_like(torn))
    assert abs(margin(made, tiny, choice(1), torn)) <= abs(before) + 1e-4
    decided = learnt(policy, u=[choice(1)] * 6)[0]
    assert np.linalg.norm(torn) < np.linalg.norm(decided)


def test_neighbours_change_nothing_and_one_job_is_one_result(tiny, monkeypatch, tmp_path):
    policy, _ = untrained(tiny, tmp_path / "p", prior_std=0.2)
    history = {f"u{k}": [choice(k + j) for j in range(1 + k % 3)] for k in range(20)}
    first = adapted(policy, history)
    assert first.keys == tuple(history)
    alone = learnt(policy, u7=history["u7"])[0]
    # Reading other rows beside one's own rounds differently, and no more.
    assert np.abs(alone - first.states[STATE][7]).max() < 0.01 * policy.unit * policy.prior_std
    others = np.delete(first.states[STATE], 7, axis=0)
    assert np.abs(alone - others).max(axis=(1, 2)).min() > 0.05 * policy.unit * policy.prior_std
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "another"))
    assert adapted(policy, history).content == first.content


def test_the_same_choices_are_learnt_once_and_a_broken_file_again(made, monkeypatch, tmp_path):
    policy, _ = made
    history = {f"u{k}": [choice(k)] for k in range(18)}
    told: list[tuple[int, int]] = []
    first = adapted(policy, history, progress=lambda done, n: told.append((done, n)))
    assert told == [(16, 18), (18, 18)]
    files = sorted(path for path in (tmp_path / "cache" / "states").rglob("*") if path.is_file())
    assert len(files) == 2
    files[0].write_bytes(files[0].read_bytes()[:100])
    assert adapted(policy, history).content == first.content
    monkeypatch.setattr(
        LocalModel, "__init__", lambda *given, **named: pytest.fail("a model is loaded")
    )
    assert adapted(policy, history).content == first.content
    assert adapted(policy, {}).keys == ()


def test_choices_that_are_too_long_are_counted_and_no_part(made):
    policy, _ = made
    long = choice(2).model_copy(update={"chosen": "water " * 1100})
    found = adapted(policy, {"u": [choice(1), long], "v": [long]})
    assert found.n_too_long == 2
    alone = learnt(policy, u=[choice(1)])
    assert np.allclose(found.states[STATE][0], alone[0], atol=1e-5)
    assert not found.states[STATE][1].any()


def test_an_untrained_start_holds_the_base_and_words_of_the_questions(made, tiny, tmp_path):
    base = Reference.parse(tiny.model(template=ENDS_WITH_EOS))
    made = train_p_dpo(
        {"a": [choice(0)], "b": []}, task((), base, tmp_path / "p", steps=0, device="cpu")
    )
    assert (made.n_users, made.n_pairs, made.n_seen, made.losses) == (1, 1, 0, ())
    policy = PersonalPolicy.load(made.folder)
    assert policy.tokens == 10 and policy.generic.shape == (10, 32)
    local = default_session().model(policy.policy, "causal", SETTINGS)
    words = local.model.get_input_embeddings().weight.detach()
    asked = local.tokenizer(choice(0).question, add_special_tokens=False)["input_ids"]
    assert {tuple(row) for row in policy.generic.tolist()} <= {
        tuple(row) for row in words[asked].tolist()
    }
    assert len({tuple(row) for row in policy.generic.tolist()}) == min(10, len(set(asked)))
    assert policy.unit == pytest.approx(float(words.square().mean().sqrt()), rel=0.05)
    assert policy.first == len(words) == 1024
    assert torch.equal(
        words, default_session().model(base, "causal", SETTINGS).model.get_input_embeddings().weight
    )


@pytest.mark.parametrize(
    ("history", "options", "error", "said"),
    [
        ({}, {}, DataError, "no choice to learn from"),
        ({"a": []}, {}, DataError, "no choice to learn from"),
        ({"a": [choice(0)]}, {"max_length": 20}, DataError, "each is over 10 tokens"),
        ({"a": [choice(0)]}, {"steps": -1}, UsageError, "steps"),
    ],
)
def test_what_cannot_be_trained_on_is_one_line(tiny, tmp_path, history, options, error, said):
    base = Reference.parse(tiny.model(template=ENDS_WITH_EOS))
    with pytest.raises(error, match=said):
        train_p_dpo(history, task((), base, tmp_path / "p", device="cpu", **options))
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    "given",
    [{"tokens": 0}, {"alpha": 0}, {"alpha": 1.5}, {"beta": 0}, {"prior_std": -1}, {"rate": 0}],
)
def test_impossible_options_are_named(given):
    with pytest.raises(UsageError, match=next(iter(given))):
        PreferenceOptions(**given)


def test_a_state_is_as_large_as_its_tokens(made):
    policy, _ = made
    assert adapted(policy, {"u": [choice(1)]}).bytes_each == 4 * TOKENS * 32
