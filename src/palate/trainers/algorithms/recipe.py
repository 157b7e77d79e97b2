"""The recipe of training a policy, said once for PPO, RLOO and GRPO."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Literal, TypeVar

from palate.errors import UsageError
from palate.seeding import shuffled

Algorithm = Literal["ppo", "rloo", "grpo"]
T = TypeVar("T")
PPO_ALONE = (
    "gamma",
    "gae_lambda",
    "value_learning_rate",
    "value_clip_range",
    "kl_target",
    "kl_horizon",
)
"""What RLOO and GRPO have no use for."""


@dataclass(frozen=True)
class PolicyTraining:
    """How a policy is trained; an update is one round of answers and all that is learned of it."""

    algorithm: Algorithm = "ppo"
    updates: int = 200
    answers: int = 64
    """Written in each update."""
    answers_per_prompt: int | None = None
    """By default 1 with PPO, and 8 with RLOO and GRPO, which compare answers to one prompt."""
    epochs: int = 1
    """How often an update goes through its answers."""
    minibatches: int = 1
    """Steps of the optimiser in an epoch."""
    answers_at_once: int = 8
    """Most answers of one pass of the policy, which memory limits."""
    max_new_tokens: int = 256
    """That an answer has."""
    temperature: float = 1.0
    learning_rate: float = 1e-5
    """Its peak."""
    warmup: float = 0.0
    """Share of the steps in which the learning rate rises; afterwards it falls to 0."""
    kl_coefficient: float = 0.05
    """β, what a nat of KL from the starting policy costs."""
    clip_range: float = 0.2
    """How far the probability of a token (of an answer with RLOO) may move on one update."""
    max_grad_norm: float = 1.0
    gamma: float = 1.0
    """PPO: what a reward one token later is worth."""
    gae_lambda: float = 0.95
    """PPO: how much of the later tokens' surprise an advantage has."""
    value_learning_rate: float = 1e-3
    """PPO: of the critic."""
    value_clip_range: float | None = 0.2
    """PPO: how far a value may move on one update, in units of the reward."""
    kl_target: float | None = None
    """PPO: the KL of an answer that an adaptive kl_coefficient aims at."""
    kl_horizon: int = 10_000
    """PPO: answers in which an adaptive kl_coefficient changes by at most about 20 %."""
    save_every: int | None = 10
    """Updates between checkpoints; None keeps none."""
    seed: int = 0
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Of a forward pass; weights that are trained stay in float32."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant; raises `UsageError`."""
        group, passes = self.group, self.passes
        for name, holds, expected in (
            *(
                (name, math.isfinite(value), "a finite number")
                for name, value in vars(self).items()
                if isinstance(value, float)
            ),
            ("algorithm", self.algorithm in {"ppo", "rloo", "grpo"}, "ppo, rloo or grpo"),
            ("updates", self.updates >= 1, "1 or more"),
            ("answers", self.answers >= 2, "2 or more"),
            (
                "answers_per_prompt",
                group >= (1 if self.algorithm == "ppo" else 2),
                "2 or more; only ppo learns from 1",
            ),
            (
                "answers_per_prompt",
                self.answers % max(1, group) == 0,
                f"a divisor of {self.answers}",
            ),
            ("epochs", self.epochs >= 1, "1 or more"),
            ("answers_at_once", self.answers_at_once >= 1, "1 or more"),
            (
                "minibatches",
                self.minibatches >= 1 and passes % self.minibatches == 0,
                f"a divisor of the {passes} passes over {self.answers} answers",
            ),
            ("max_new_tokens", self.max_new_tokens >= 1, "1 or more"),
            ("temperature", self.temperature > 0, "a number above 0"),
            ("learning_rate", 0 < self.learning_rate < 1, "a number between 0 and 1"),
            ("warmup", 0 <= self.warmup < 1, "a share of the steps, 0 or more and below 1"),
            ("kl_coefficient", self.kl_coefficient >= 0, "0 or more"),
            ("clip_range", 0 < self.clip_range < 1, "a number between 0 and 1"),
            ("max_grad_norm", self.max_grad_norm > 0, "a number above 0"),
            ("gamma", 0 <= self.gamma <= 1, "0 to 1"),
            ("gae_lambda", 0 <= self.gae_lambda <= 1, "0 to 1"),
            ("value_learning_rate", self.value_learning_rate > 0, "a number above 0"),
            (
                "value_clip_range",
                self.value_clip_range is None or self.value_clip_range > 0,
                "a number above 0, or None",
            ),
            (
                "kl_target",
                self.kl_target is None or (self.kl_target > 0 and self.kl_coefficient > 0),
                "a number above 0 beside a kl_coefficient above 0, or None",
            ),
            ("kl_horizon", self.kl_horizon >= 1, "1 or more"),
            *(
                (
                    name,
                    self.algorithm == "ppo" or getattr(self, name) == getattr(type(self), name),
                    "the default, since ppo alone reads it",
                )
                for name in PPO_ALONE
            ),
            ("save_every", self.save_every is None or self.save_every >= 1, "1 or more, or None"),
            ("dtype", self.dtype in {"float32", "bfloat16"}, "float32 or bfloat16"),
        ):
            if not holds:
                raise UsageError(f"policy: {name}={getattr(self, name)}: expected {expected}")

    @property
    def group(self) -> int:
        """Answers to one prompt in an update."""
        if self.answers_per_prompt is not None:
            return self.answers_per_prompt
        return 1 if self.algorithm == "ppo" else 8

    @property
    def at_once(self) -> int:
        """Answers of one pass: the most that `answers_at_once` allows in equal parts."""
        most = max(1, min(self.answers_at_once, self.answers))
        return next(k for k in range(most, 0, -1) if self.answers % k == 0)

    @property
    def passes(self) -> int:
        """Passes of the policy over the answers of an update, in one epoch."""
        return self.answers // self.at_once

    @property
    def steps_per_update(self) -> int:
        """Steps of the optimiser in an update."""
        return self.epochs * self.minibatches

    def prompts(self, rows: Sequence[T]) -> list[T]:
        """Return one row for each prompt of the whole run, each round in another order.

        The run is one pass over them: a second pass of TRL's sampler would begin its shuffles
        anew after a resume.

        >>> recipe = PolicyTraining(updates=2, answers=3)
        >>> len(recipe.prompts(["a", "b"])), sorted(recipe.prompts(["a", "b"])[:2])
        (6, ['a', 'b'])
        """
        if not rows:
            raise UsageError("policy: no prompt to train on")
        rounds = (row for k in count() for row in shuffled(rows, "prompts", self.seed, k))
        drawn: Iterator[T] = islice(rounds, self.updates * self.answers // self.group)
        return list(drawn)
