"""Returns of a rollout, token by token: rewards less KL, and advantages.

All tensors are (answers × tokens), a mask is 1 where a token counts and 0 where it does not: behind
the end, written by a tool, or of an answer without a reward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

VARIANCE_FLOOR = 1e-8
"""Added to a variance before its root is taken."""
MOST_KL_ERROR = 0.2
"""Bound of the relative error that the adaptive KL coefficient answers to."""


def scored_mask(mask: Tensor, scores: Tensor) -> Tensor:
    """Return the mask without the answers whose score is NaN, which is how TRL writes None.

    Args:
        mask: (answers × tokens).
        scores: one number an answer.

    >>> import torch
    >>> scored_mask(torch.ones(2, 2), torch.tensor([0.5, torch.nan])).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    return mask * ~scores.isnan().unsqueeze(1)


def token_rewards(
    scores: Tensor, log_ratios: Tensor, mask: Tensor, kl_coefficient: float
) -> Tensor:
    """Return r_t = −β log(π(y_t) / π_ref(y_t)), plus the answer's score at its last token.

    The log-ratio is the estimator k1 of the KL divergence: unbiased, and negative at times. Inside
    the reward its gradient is the divergence's own, which that of an estimator in a loss is not.

    Args:
        scores: one number an answer; NaN counts as 0.
        log_ratios: log π − log π_ref of the tokens written (answers × tokens).
        mask: (answers × tokens).
        kl_coefficient: β.

    >>> import torch
    >>> log_ratios = torch.tensor([[0.5, -1.0, 9.0]])
    >>> token_rewards(torch.tensor([2.0]), log_ratios, torch.tensor([[1, 1, 0]]), 0.5).tolist()
    [[-0.25, 2.5, 0.0]]
    """
    rewards = -kl_coefficient * log_ratios * mask
    behind = mask.flip(1).cumsum(1).flip(1)
    is_last = (behind == 1) & (mask == 1)
    return rewards.masked_fill(mask == 0, 0) + scores.nan_to_num(0).unsqueeze(1) * is_last


def gae(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, gae_lambda: float
) -> tuple[Tensor, Tensor]:
    """Return generalised advantages and returns (Schulman et al. 2016, arXiv 1506.02438).

    δ_t = r_t + γ V_{t+1} − V_t;  A_t = δ_t + γλ A_{t+1};  the return is A_t + V_t. t + 1 is the
    next token that counts; behind the last, V and A are 0. Both results are 0 off the mask.

    Args:
        rewards: r (answers × tokens).
        values: V of the state in which each token was chosen (answers × tokens).
        mask: (answers × tokens).
        gamma: γ, what a reward one token later is worth.
        gae_lambda: λ; at 1 the advantage is reward-to-go less V, at 0 it is δ.

    >>> import torch
    >>> rewards, values = torch.tensor([[0.0, 1.0, 5.0]]), torch.tensor([[0.5, 0.25, 7.0]])
    >>> advantages, returns = gae(rewards, values, torch.tensor([[1, 1, 0]]), 1.0, 0.5)
    >>> advantages.tolist(), returns.tolist()
    ([[0.125, 0.75, 0.0]], [[0.625, 1.0, 0.0]])
    """
    advantages = values.new_zeros(values.shape)
    next_value, next_advantage = values.new_zeros(len(values)), values.new_zeros(len(values))
    for t in reversed(range(values.shape[1])):
        counts = mask[:, t] != 0
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = (delta + gamma * gae_lambda * next_advantage).where(counts, next_advantage)
        next_value = values[:, t].where(counts, next_value)
        advantages[:, t] = next_advantage.where(counts, 0)
    return advantages, (advantages + values).masked_fill(mask == 0, 0)


def whiten(values: Tensor, mask: Tensor, among: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """Return (x − mean) / √(variance + 1e-8), both of what the mask keeps; 0 off the mask.

    The variance has n − 1 in its denominator; a single number becomes 0.

    Args:
        values: (answers × tokens).
        mask: (answers × tokens).
        among: values and mask that mean and variance are of, where that is more than these.

    >>> import torch
    >>> whiten(torch.tensor([[1.0, 2.0, 3.0, 80.0]]), torch.tensor([[1, 1, 1, 0]])).tolist()
    [[-1.0, 0.0, 1.0, 0.0]]
    """
    everything, counts = (values, mask) if among is None else among
    numbers = everything[counts != 0]
    if not len(numbers):
        return values.new_zeros(values.shape)
    mean = numbers.mean()
    variance = (numbers - mean).square().sum() / max(1, len(numbers) - 1)
    return ((values - mean) * (variance + VARIANCE_FLOOR).rsqrt()).masked_fill(mask == 0, 0)


def adapted_kl_coefficient(
    kl_coefficient: float, kl: float, *, kl_target: float, kl_horizon: int, answers: int
) -> float:
    """Return β (1 + e·min(1, n / horizon)), e = clip(KL / target − 1, ±0.2) (Ziegler et al. 2019).

    A proportional controller of log β (arXiv 1909.08593, section 2.2): too much KL raises β.

    Args:
        kl_coefficient: β of the answers that `kl` was measured on.
        kl: mean over answers of the summed log-ratios.
        kl_target: what it should be.
        kl_horizon: answers after which β has changed by at most about 20 %.
        answers: n.

    >>> adapted_kl_coefficient(0.5, 9.0, kl_target=6.0, kl_horizon=1000, answers=100)
    0.51
    >>> adapted_kl_coefficient(0.5, 5.4, kl_target=6.0, kl_horizon=1000, answers=100)
    0.495
    """
    error = min(max(kl / kl_target - 1, -MOST_KL_ERROR), MOST_KL_ERROR)
    return kl_coefficient * (1 + error * min(1, answers / kl_horizon))
