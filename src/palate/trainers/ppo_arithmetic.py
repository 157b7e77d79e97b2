"""PPO's arithmetic: rewards per token, advantages, two clipped losses.

All tensors are (answers × tokens), a mask is 1 where a token counts and 0 where it does not: behind
the end, written by a tool, or of an answer without a reward. A loss (Schulman et al. 2017, arXiv
1707.06347) is a sum over tokens divided by `total`: the tokens of the whole step, where what is
given is only a part of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

VARIANCE_FLOOR = 1e-8
"""Added to a variance before its root is taken."""
MOST_KL_ERROR = 0.2
"""Bound of the relative error that the adaptive KL coefficient answers to."""
MOST_LOG_RATIO = 20.0
"""Log-ratios are cut here, since their exponential would overflow."""


def scored_mask(mask: Tensor, scores: Tensor) -> Tensor:
    """Return the mask without the answers whose score is NaN, which is how TRL writes None.

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

    `log_ratios` are log π − log π_ref of the tokens written, the coefficient is β; a score is one
    number an answer, of which NaN counts as 0.

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
    next token that counts; behind the last, V and A are 0. Both results are 0 off the mask. V is of
    the state in which a token was chosen; γ is what a reward one token later is worth; with λ = 1
    the advantage is reward-to-go less V, with λ = 0 it is δ.

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

    The variance has n − 1 in its denominator; a single number becomes 0. `among` are values and
    mask that both are of, where that is more than these.

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

    A proportional controller of log β (arXiv 1909.08593, section 2.2): too much KL raises β, that
    of the n `answers` on which `kl` was measured as the mean of their summed log-ratios.

    >>> adapted_kl_coefficient(0.5, 9.0, kl_target=6.0, kl_horizon=1000, answers=100)
    0.51
    >>> adapted_kl_coefficient(0.5, 5.4, kl_target=6.0, kl_horizon=1000, answers=100)
    0.495
    """
    error = min(max(kl / kl_target - 1, -MOST_KL_ERROR), MOST_KL_ERROR)
    return kl_coefficient * (1 + error * min(1, answers / kl_horizon))


def probability_ratios(log_probs: Tensor, old_log_probs: Tensor) -> Tensor:
    """Return ρ_t = π(y_t) / π_old(y_t).

    >>> import torch
    >>> probability_ratios(torch.tensor([-1.0, 500.0]), torch.tensor([-1.0, 0.0])).log().tolist()
    [0.0, 20.0]
    """
    return (log_probs - old_log_probs).clamp(-MOST_LOG_RATIO, MOST_LOG_RATIO).exp()


def policy_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip_range: float,
    total: Tensor | float | None = None,
) -> Tensor:
    """Return −Σ_t min(ρ_t A_t, clip(ρ_t, 1 ± ε) A_t) / total.

    The log-probabilities are those of the tokens written, the old ones of the policy that wrote
    them; the clip range is ε. By default `total` is the number of tokens that count here.

    Here ρ is 1.5 twice; 1.2 is the most that a good token is credited with:

    >>> import torch
    >>> ratio = torch.tensor([[1.5, 1.5]])
    >>> good_and_bad, mask = torch.tensor([[1.0, -1.0]]), torch.tensor([[1, 1]])
    >>> round(policy_loss(ratio.log(), torch.zeros(1, 2), good_and_bad, mask, 0.2).item(), 6)
    0.15
    """
    ratios = probability_ratios(log_probs, old_log_probs)
    clipped = ratios.clamp(1 - clip_range, 1 + clip_range)
    return -_over(ratios.mul(advantages).minimum(clipped * advantages), mask, total)


def value_loss(
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    mask: Tensor,
    clip_range: float | None,
    total: Tensor | float | None = None,
) -> Tensor:
    """Return ½ Σ_t max((V_t − R_t)², (clip(V_t, V_old,t ± ε) − R_t)²) / total.

    The old values are those when the tokens were written; a clip range ε of None does not clip. By
    default `total` is the number of tokens that count here.

    V moved from 0 to 1, past the clip, and away from R:

    >>> import torch
    >>> one, zero, mask = torch.ones(1, 1), torch.zeros(1, 1), torch.ones(1, 1)
    >>> value_loss(one, zero, -one, mask, 0.5).item()  # ½ max(2², 1.5²)
    2.0
    >>> value_loss(one, zero, one, mask, 0.5).item()  # ½ max(0², 0.5²)
    0.125
    """
    loss = (values - returns).square()
    if clip_range is not None:
        clipped = old_values + (values - old_values).clamp(-clip_range, clip_range)
        loss = loss.maximum((clipped - returns).square())
    return _over(loss, mask, total) / 2


def _over(loss: Tensor, mask: Tensor, total: Tensor | float | None) -> Tensor:
    """Sum what counts, over the total; an empty mask gives 0, still with a gradient of 0."""
    every = mask.sum() if total is None else total
    return loss.masked_fill(mask == 0, 0).sum() / max(every, 1)
