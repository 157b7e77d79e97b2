"""PPO's two clipped losses (Schulman et al. 2017, arXiv 1707.06347).

All tensors are (answers × tokens); a mask is 1 where a token counts. A loss is a sum over tokens
divided by `total`: the tokens of the whole step, where what is given here is only a part of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

MOST_LOG_RATIO = 20.0
"""Log-ratios are cut here, since their exponential would overflow."""


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

    Args:
        log_probs: log π of the tokens written (answers × tokens), with gradients.
        old_log_probs: log π of the policy that wrote them.
        advantages: A (answers × tokens).
        mask: (answers × tokens).
        clip_range: ε.
        total: by default the number of tokens that count here.

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

    Args:
        values: V (answers × tokens), with gradients.
        old_values: V when the tokens were written.
        returns: R (answers × tokens).
        mask: (answers × tokens).
        clip_range: ε; None does not clip.
        total: by default the number of tokens that count here.

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
