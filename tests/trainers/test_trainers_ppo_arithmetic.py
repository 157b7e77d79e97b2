"""PPO's arithmetic by hand, by sums written out, and against verl's where verl is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from palate.trainers.ppo_arithmetic import (
    VARIANCE_FLOOR,
    adapted_kl_coefficient,
    gae,
    policy_loss,
    scored_mask,
    token_rewards,
    value_loss,
    whiten,
)

SHARES = (0.0, 0.5, 0.95, 1.0)


def drawn(seed: int, answers: int, tokens: int, *, ends: bool = False) -> dict[str, torch.Tensor]:
    """Draw numbers, and a mask with holes or one that only ends early."""
    stream = torch.Generator().manual_seed(seed)
    names = ("rewards", "values", "old_values", "returns", "log_probs", "old_log_probs")
    made = {name: torch.randn(answers, tokens, generator=stream).double() for name in names}
    made["advantages"] = torch.randn(answers, tokens, generator=stream).double()
    mask = torch.rand(answers, tokens, generator=stream) < 0.7
    if ends:
        lengths = torch.randint(0, tokens + 1, (answers, 1), generator=stream)
        mask = torch.arange(tokens) < lengths
    return {**made, "mask": mask.double()}


worlds = st.builds(drawn, st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 7),
                   ends=st.booleans())  # fmt: skip


def test_gae_by_hand() -> None:
    """Two tokens that count, with a tool's token between them; γ = 0.9, λ = 0.5."""
    rewards = torch.tensor([[1.0, 50.0, 2.0, 50.0]])
    values = torch.tensor([[3.0, -7.0, 4.0, -7.0]])
    mask = torch.tensor([[1, 0, 1, 0]])
    advantages, returns = gae(rewards, values, mask, 0.9, 0.5)
    last = 2.0 - 4.0
    first = 1.0 + 0.9 * 4.0 - 3.0 + 0.9 * 0.5 * last
    assert advantages.tolist() == [pytest.approx([first, 0, last, 0])]
    assert returns.tolist() == [pytest.approx([first + 3.0, 0, 2.0, 0])]


def test_rewards_by_hand() -> None:
    scores = torch.tensor([2.0, torch.nan, 1.0])
    log_ratios = torch.tensor([[0.5, -1.0, 3.0], [1.0, 1.0, 1.0], [torch.inf, 0.0, 0.25]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 0, 1]])
    rewards = token_rewards(scores, log_ratios, mask, 0.5)
    assert rewards.tolist() == [[-0.25, 2.5, 0.0], [-0.5, -0.5, -0.5], [0.0, 0.0, 0.875]]


def test_whitening_by_hand() -> None:
    values = torch.tensor([[1.0, 2.0, 900.0], [3.0, 900.0, 900.0]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    assert whiten(values, mask).tolist() == [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    among = (torch.tensor([[0.0, 2.0, 4.0]]), torch.tensor([[1, 1, 1]]))
    assert whiten(values, mask, among).tolist() == [[-0.5, 0.0, 0.0], [0.5, 0.0, 0.0]]
    for few in ([[0, 0, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 0]]):
        assert whiten(values, torch.tensor(few)).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "moves"),
    [
        (1.5, 2.0, -2.4, False),  # a good token, past the clip: no more credit
        (0.5, 2.0, -1.0, True),  # a good token that became rarer
        (0.5, -2.0, 1.6, False),  # a bad token, past the clip
        (1.5, -2.0, 3.0, True),  # a bad token that became likelier
        (1.1, 2.0, -2.2, True),
    ],
)
def test_clipping_of_the_policy_by_hand(
    ratio: float, advantage: float, loss: float, moves: bool
) -> None:
    log_probs = torch.tensor([[ratio]]).log().requires_grad_()
    one = torch.ones(1, 1)
    made = policy_loss(log_probs, torch.zeros(1, 1), advantage * one, one, 0.2)
    made.backward()
    assert made.item() == pytest.approx(loss)
    assert log_probs.grad is not None
    assert log_probs.grad.item() == pytest.approx(-ratio * advantage if moves else 0)


@pytest.mark.parametrize(
    ("value", "old", "target", "clip", "loss", "slope"),
    [
        (1.0, 0.0, 3.0, 0.5, 3.125, 0.0),  # towards the return, past the clip: no more credit
        (1.0, 0.0, -1.0, 0.5, 2.0, 2.0),  # away from it
        (0.25, 0.0, 3.0, 0.5, 3.78125, -2.75),
        (1.0, 0.0, 3.0, None, 2.0, -2.0),
    ],
)
def test_clipping_of_values_by_hand(
    value: float, old: float, target: float, clip: float | None, loss: float, slope: float
) -> None:
    values, one = torch.tensor([[value]], requires_grad=True), torch.ones(1, 1)
    made = value_loss(values, old * one, target * one, one, clip)
    made.backward()
    assert made.item() == pytest.approx(loss)
    assert values.grad is not None
    assert values.grad.item() == pytest.approx(slope)


def test_a_part_of_a_step_is_divided_by_the_whole_steps_tokens() -> None:
    world = drawn(1, 6, 5)
    names = ("log_probs", "old_log_probs", "advantages", "mask")
    values = ("values", "old_values", "returns", "mask")
    total = world["mask"].sum()
    parts = [{name: it[rows] for name, it in world.items()} for rows in (slice(2), slice(2, 6))]
    for loss, given_, clip in ((policy_loss, names, 0.2), (value_loss, values, 0.5)):
        whole = loss(*(world[name] for name in given_), clip)
        split = sum(loss(*(part[name] for name in given_), clip, total) for part in parts)
        assert float(split) == pytest.approx(float(whole))


@given(worlds, st.sampled_from(SHARES), st.sampled_from(SHARES))
def test_advantages_are_the_sum_of_later_surprises(
    world: dict[str, torch.Tensor], gamma: float, gae_lambda: float
) -> None:
    """A_t = Σ_k (γλ)^k δ_{t+k} over the tokens that count, without any recursion."""
    advantages, returns = gae(world["rewards"], world["values"], world["mask"], gamma, gae_lambda)
    for row in range(len(advantages)):
        places = np.flatnonzero(world["mask"][row].numpy())
        r, v = (world[name][row].numpy()[places] for name in ("rewards", "values"))
        surprise = r + gamma * np.append(v[1:], 0.0)[: len(v)] - v
        expected = [
            sum((gamma * gae_lambda) ** k * it for k, it in enumerate(surprise[t:]))
            for t in range(len(v))
        ]
        assert advantages[row].numpy()[places] == pytest.approx(np.array(expected))
        assert returns[row].numpy()[places] == pytest.approx(np.array(expected) + v)
        off = np.setdiff1d(np.arange(advantages.shape[1]), places)
        assert not advantages[row].numpy()[off].any() and not returns[row].numpy()[off].any()


@given(worlds)
def test_monte_carlo_returns_at_lambda_1(world: dict[str, torch.Tensor]) -> None:
    """At γ = λ = 1 a return is the reward to go, whatever the critic says."""
    mask = world["mask"]
    _, returns = gae(world["rewards"], world["values"], mask, 1.0, 1.0)
    to_go = (world["rewards"] * mask).flip(1).cumsum(1).flip(1) * mask
    torch.testing.assert_close(returns, to_go)


@given(worlds)
def test_whitened_numbers_have_mean_0_and_variance_1(world: dict[str, torch.Tensor]) -> None:
    mask = world["mask"]
    white = whiten(world["advantages"], mask)
    assert not white[mask == 0].any()
    numbers = world["advantages"][mask == 1].numpy()
    if len(numbers) > 1:
        expected = (numbers - numbers.mean()) / np.sqrt(numbers.var(ddof=1) + VARIANCE_FLOOR)
        assert white[mask == 1].numpy() == pytest.approx(expected, abs=1e-9)


@given(worlds, st.data())
def test_answers_without_a_score_count_nowhere(
    world: dict[str, torch.Tensor], data: st.DataObject
) -> None:
    """What they hold changes no advantage, loss or gradient of the others, to the bit."""
    rows = len(world["mask"])
    unscored = torch.tensor(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
    scores = world["rewards"].sum(dim=1).masked_fill(unscored, torch.nan)
    changed = {
        name: it.where(~unscored.unsqueeze(1), 7 + 3 * it) if name != "mask" else it
        for name, it in world.items()
    }

    def outcome(told: dict[str, torch.Tensor]) -> list[Any]:
        mask = scored_mask(told["mask"], scores)
        log_probs = told["log_probs"].clone().requires_grad_()
        values = told["values"].clone().requires_grad_()
        ratios = told["log_probs"] - told["old_log_probs"]
        rewards = token_rewards(scores, ratios, mask, 0.1)
        advantages, returns = gae(rewards, told["values"], mask, 1.0, 0.95)
        white = whiten(advantages, mask)
        loss = policy_loss(log_probs, told["old_log_probs"], white, mask, 0.2)
        loss = loss + value_loss(values, told["old_values"], returns, mask, 0.2)
        loss.backward()  # type: ignore[no-untyped-call]
        tensors = (white, returns, log_probs.grad, values.grad)
        assert all(it is not None and not it[unscored].any() for it in tensors)
        return [loss.item(), *(it.tolist() for it in tensors if it is not None)]

    assert outcome(world) == outcome(changed)
    kept = {name: it[~unscored] for name, it in world.items()}
    if len(kept["mask"]):
        ratios = kept["log_probs"] - kept["old_log_probs"]
        alone = token_rewards(scores[~unscored], ratios, kept["mask"], 0.1)
        advantages, _ = gae(alone, kept["values"], kept["mask"], 1.0, 0.95)
        expected = whiten(advantages, kept["mask"]).numpy()
        assert np.array(outcome(world)[1])[~unscored.numpy()] == pytest.approx(expected)


def test_the_kl_coefficient_goes_to_its_target_from_both_sides() -> None:
    """A policy whose KL falls as 1 / β: the controller ends where the KL is the target."""
    for start in (0.01, 1.0):
        beta = start
        for _ in range(4_000):
            beta = adapted_kl_coefficient(
                beta, 0.3 / beta, kl_target=6.0, kl_horizon=1_000, answers=64
            )
        assert beta == pytest.approx(0.05, rel=1e-3)


@pytest.fixture(scope="module")
def verl() -> Any:
    return pytest.importorskip(
        "verl.trainer.ppo.core_algos", exc_type=ImportError,
        reason="no verl here: pip install --no-deps -c constraints.txt -r tests/trainers.txt",
    )  # fmt: skip


@given(world=worlds, gamma=st.sampled_from(SHARES), gae_lambda=st.sampled_from(SHARES))
def test_verl_gives_the_same_advantages(
    verl: Any, world: dict[str, torch.Tensor], gamma: float, gae_lambda: float
) -> None:
    mask = world["mask"]
    assume(mask.sum() > 1)  # verl raises
    expected, goals = verl.compute_gae_advantage_return(
        world["rewards"], world["values"], mask, gamma, gae_lambda
    )
    advantages, returns = gae(world["rewards"], world["values"], mask, gamma, gae_lambda)
    there = mask == 1
    torch.testing.assert_close(returns[there], goals[there])
    # verl adds 1e-8 to the number of tokens, which moves the mean by as much of itself.
    scale = float(advantages[there].abs().max() * (advantages[there].var() + 1e-8).rsqrt())
    white = whiten(advantages, mask)[there]
    torch.testing.assert_close(white, expected[there], rtol=1e-7, atol=1e-7 + 1e-8 * scale)


@given(world=worlds, clip=st.sampled_from((0.1, 0.2, 0.5)))
def test_verl_gives_the_same_losses(verl: Any, world: dict[str, torch.Tensor], clip: float) -> None:
    mask = world["mask"]
    assume(mask.sum() > 0)  # verl gives NaN

    class Config(dict[str, Any]):
        clip_ratio, clip_ratio_low, clip_ratio_high = clip, None, None
        global_batch_info: dict[str, Any] = {}

    policy, _ = verl.compute_policy_loss_vanilla(
        world["old_log_probs"], world["log_probs"], world["advantages"], mask,
        config=Config(clip_ratio_c=1e9),
    )  # fmt: skip
    value, _ = verl.compute_value_loss(
        world["values"], world["returns"], world["old_values"], mask, clip
    )
    given_ = (world[name] for name in ("log_probs", "old_log_probs", "advantages"))
    torch.testing.assert_close(policy_loss(*given_, mask, clip), policy)
    given_ = (world[name] for name in ("values", "old_values", "returns"))
    torch.testing.assert_close(value_loss(*given_, mask, clip), value)


@given(st.floats(0.01, 10), st.floats(0, 100), st.integers(1, 512))
def test_verl_gives_the_same_kl_coefficient(
    verl: Any, beta: float, kl: float, answers: int
) -> None:
    controller = verl.AdaptiveKLController(beta, 6.0, 10_000)
    controller.update(kl, answers)
    got = adapted_kl_coefficient(beta, kl, kl_target=6.0, kl_horizon=10_000, answers=answers)
    assert got == pytest.approx(controller.value)
