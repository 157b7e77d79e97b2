"""Proximal policy optimisation with a critic, on TRL's generation, adapters and checkpoints."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from trl.trainer.grpo_config import GRPOConfig

from palate.errors import ModelError
from palate.files import write_whole
from palate.trainers.ppo_arithmetic import (
    adapted_kl_coefficient,
    gae,
    policy_loss,
    probability_ratios,
    scored_mask,
    token_rewards,
    value_loss,
    whiten,
)
from palate.trainers.trl_hooks import (
    ActorCriticTrainer,
    Advantages,
    OldPass,
    PolicyPass,
    Rollout,
    answers_of_two,
)

STATE = "ppo_state.json"


@dataclass
class PPOConfig(GRPOConfig):
    """TRL's options, with those of a critic; `epsilon` clips the policy, `beta` weighs the KL.

    One answer a prompt is written unless `num_generations` says more.
    """

    num_generations: int = field(default=1)
    gamma: float = field(default=1.0)
    """γ, what a reward one token later is worth."""
    gae_lambda: float = field(default=0.95)
    """λ of generalised advantages."""
    value_learning_rate: float = field(default=1e-3)
    """Of the critic, at its peak; it follows the policy's schedule."""
    value_clip_range: float | None = field(default=0.2)
    """How far a value may move on one rollout; None does not clip."""
    kl_target: float | None = field(default=None)
    """KL of an answer that an adaptive `beta` aims at; None leaves `beta` as it is."""
    kl_horizon: int = field(default=10_000)
    """Answers in which an adaptive `beta` changes by at most about 20 %."""

    def __post_init__(self) -> None:
        """Allow one answer a prompt; raises `UsageError` for one answer an update."""
        wanted = self.num_generations
        self.num_generations_eval = self.num_generations_eval or wanted
        if wanted == 1:
            self.num_generations = answers_of_two(self)
        super().__post_init__()  # type: ignore[no-untyped-call]
        self.num_generations = wanted


class PPOTrainer(ActorCriticTrainer):
    """TRL's GRPO trainer with PPO's advantages: KL in the reward, a critic, an advantage per token.

    Of a rollout, r_t = −β (log π − log π_ref) + score at the last token; advantages are GAE(γ, λ),
    whitened over all processes. A pass minimises the clipped policy loss plus the clipped value
    loss, each a mean over the tokens of its step. Answers whose rewards are all None count nowhere.
    Takes what TRL's GRPOTrainer takes, with `args` a `PPOConfig`; raises `UsageError` for an
    untested TRL, sharded weights or a model that reads more than text.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kl_coefficient: float = self.args.beta
        self.add_callback(CriticGradients(self))

    def create_optimizer(self, model: Any = None) -> Any:
        """Give TRL's optimizer the critic as one more group: its state is in `optimizer.pt`."""
        fresh = self.optimizer is None
        optimizer = super().create_optimizer(model)
        if fresh:
            critic, rate = list(self.value_head.parameters()), self.args.value_learning_rate
            optimizer.add_param_group({"params": critic, "lr": rate, "weight_decay": 0.0})
        return optimizer

    def compute_advantages(self, rollout: Rollout) -> Advantages:
        """Return whitened advantages, and returns."""
        mask = scored_mask(rollout.mask, rollout.scores)
        ratios = torch.zeros_like(rollout.log_probs)
        if rollout.reference_log_probs is not None:
            ratios = rollout.log_probs - rollout.reference_log_probs
        rewards = token_rewards(rollout.scores, ratios, mask, self.kl_coefficient)
        advantages, returns = gae(
            rewards, rollout.values, mask, self.args.gamma, self.args.gae_lambda
        )
        everyone = self.accelerator.pad_across_processes((advantages, mask), dim=1)
        among = self.accelerator.gather(everyone)
        self._adapt(ratios, mask)
        return Advantages(mask, whiten(advantages, mask, among), returns)

    def _adapt(self, ratios: torch.Tensor, mask: torch.Tensor) -> None:
        """Measure the KL of the answers, and let β follow it."""
        scored = mask.any(dim=1).sum()
        sums = torch.stack(
            [ratios.masked_fill(mask == 0, 0).sum(), scored, mask.new_tensor(len(mask))]
        )
        kl, scored, answers = self.accelerator.reduce(sums, "sum").tolist()
        kl = kl / max(1, scored)
        self.note({"unscored": 1 - scored / answers})
        if self.args.beta:
            self.note({"kl": kl, "kl_coefficient": self.kl_coefficient})
        if self.args.kl_target is not None and self.model.training and scored:
            aim = {name: getattr(self.args, name) for name in ("kl_target", "kl_horizon")}
            now = adapted_kl_coefficient(self.kl_coefficient, kl, answers=int(scored), **aim)
            self.kl_coefficient = now

    def loss(self, now: PolicyPass, old: OldPass, total: torch.Tensor) -> torch.Tensor:
        """Return the clipped policy loss plus the clipped value loss."""
        mask, advantages, returns = old.advantages
        policy = policy_loss(
            now.log_probs, old.log_probs, advantages, mask, self.args.epsilon, total
        )
        clip = self.args.value_clip_range
        value = value_loss(now.values, old.values, returns, mask, clip, total)
        with torch.no_grad():
            tokens = mask.sum().clamp(min=1)
            ratios = probability_ratios(now.log_probs, old.log_probs)
            clipped = ((ratios - 1).abs() > self.args.epsilon) * mask
            self.note(
                {
                    "policy_loss": policy * total / tokens,
                    "value_loss": value * total / tokens,
                    "clip_ratio": clipped.sum() / tokens,
                    "entropy": (now.entropies * mask).sum() / tokens,
                }
            )
        return policy + value

    def save_state(self, folder: Path) -> None:
        """Write the critic's weights and β; the optimizer's state of both is TRL's."""
        self.value_head.save(folder)
        state = json.dumps({"kl_coefficient": self.kl_coefficient})
        write_whole(folder / STATE, state + "\n")

    def load_state(self, folder: Path) -> None:
        """Read both; raises `ModelError` for a checkpoint that is not of PPO."""
        self.value_head.load(folder)
        try:
            state = json.loads((folder / STATE).read_text(encoding="utf-8"))
            self.kl_coefficient = float(state["kl_coefficient"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(f"{folder / STATE}: no state of PPO ({error})") from error


class CriticGradients(transformers.TrainerCallback):
    """Does for the critic what TRL does for the policy: averages, clips and clears gradients."""

    def __init__(self, trainer: PPOTrainer) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Average over processes, then clip the norm."""
        critic, accelerator = self.trainer.value_head, self.trainer.accelerator
        for weights in critic.parameters():
            if weights.grad is not None:
                weights.grad = accelerator.reduce(weights.grad, "mean")
        if args.max_grad_norm > 0:
            torch.nn.utils.clip_grad_norm_(critic.parameters(), args.max_grad_norm)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Clear, as TRL clears the policy's."""
        self.trainer.value_head.zero_grad()
