"""The recipe of training a policy, and how TRL is told to run it by PPO, RLOO and GRPO."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal, TypeVar

from palate.errors import UsageError
from palate.learning import Lora
from palate.learning.fitting import configured, import_training, one_device, refuse, trainer_options
from palate.models import import_transformers
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
UNREAD = "the default, since ppo alone reads it"
COUNTS = ("updates", "epochs", "answers_at_once", "max_new_tokens")
LAST_FILE = "trainer_state.json"
"""Of a checkpoint; where it can be read, all other files are there."""
CHECKPOINTS = 2
"""How many stay: the newest may be half written when a run is killed."""


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
        ppo, group, answers, passes = self.algorithm == "ppo", self.group, self.answers, self.passes
        divides = self.minibatches >= 1 and passes % self.minibatches == 0
        named = f"a divisor of the {passes} passes over {answers} answers"
        floats = {name: value for name, value in vars(self).items() if isinstance(value, float)}
        unread = () if ppo else PPO_ALONE
        clip, target = self.value_clip_range, self.kl_target
        aimed = target is None or (target > 0 and self.kl_coefficient > 0)
        checks = (
            *((name, math.isfinite(value), "a finite number") for name, value in floats.items()),
            ("algorithm", self.algorithm in {"ppo", "rloo", "grpo"}, "ppo, rloo or grpo"),
            ("answers", answers >= 2, "2 or more"),
            ("answers_per_prompt", group >= (1 if ppo else 2), "2 or more; only ppo learns from 1"),
            ("answers_per_prompt", answers % max(1, group) == 0, f"a divisor of {answers}"),
            *((name, getattr(self, name) >= 1, "1 or more") for name in COUNTS),
            ("minibatches", divides, named),
            ("temperature", self.temperature > 0, "a number above 0"),
            ("learning_rate", 0 < self.learning_rate < 1, "a number between 0 and 1"),
            ("warmup", 0 <= self.warmup < 1, "a share of the steps, 0 or more and below 1"),
            ("kl_coefficient", self.kl_coefficient >= 0, "0 or more"),
            ("clip_range", 0 < self.clip_range < 1, "a number between 0 and 1"),
            ("max_grad_norm", self.max_grad_norm > 0, "a number above 0"),
            ("gamma", 0 <= self.gamma <= 1, "0 to 1"),
            ("gae_lambda", 0 <= self.gae_lambda <= 1, "0 to 1"),
            ("value_learning_rate", self.value_learning_rate > 0, "a number above 0"),
            ("value_clip_range", clip is None or clip > 0, "a number above 0, or None"),
            ("kl_target", aimed, "a number above 0 beside a kl_coefficient above 0, or None"),
            ("kl_horizon", self.kl_horizon >= 1, "1 or more"),
            *((name, getattr(self, name) == getattr(type(self), name), UNREAD) for name in unread),
            ("save_every", self.save_every is None or self.save_every >= 1, "1 or more, or None"),
            ("dtype", self.dtype in {"float32", "bfloat16"}, "float32 or bfloat16"),
        )
        refuse("policy", self, checks)

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


ALGORITHMS: Sequence[Algorithm] = ("ppo", "rloo", "grpo")


def _classes(recipe: PolicyTraining) -> tuple[Any, Any, dict[str, Any]]:
    """Return an algorithm's configuration and trainer, and what the first is told beside."""
    if recipe.algorithm == "ppo":  # KL in the reward of each token, a critic, an advantage a token
        from palate.trainers.ppo_trainer import PPOConfig, PPOTrainer

        return PPOConfig, PPOTrainer, {name: getattr(recipe, name) for name in PPO_ALONE}
    if recipe.algorithm == "rloo":
        # Ahmadian et al. 2024: KL in the reward of an answer, less the mean of its siblings.
        from trl.trainer.rloo_config import RLOOConfig
        from trl.trainer.rloo_trainer import RLOOTrainer

        return RLOOConfig, RLOOTrainer, {"normalize_advantages": False}
    # GRPO without its two biases (Liu et al. 2025, arXiv 2503.20783), KL in the loss. Advantages
    # divided by their spread would change what a nat of KL costs from prompt to prompt, so they are
    # not; the KL's gradient is corrected to be that of E_π, not of E_ref.
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    more = {"scale_rewards": "none", "loss_type": "dr_grpo", "use_bias_correction_kl": True}
    return GRPOConfig, GRPOTrainer, more


def build_trainer(
    recipe: PolicyTraining,
    model: Any,
    tokenizer: Any,
    rows: Sequence[Mapping[str, Any]],
    reward: Callable[..., list[float | None]],
    output: Path,
    *,
    device: str = "cpu",
    lora: Lora | None = None,
    callbacks: Sequence[Any] = (),
) -> Any:
    """Return a trainer of TRL's, ready for `train(resume_from_checkpoint=last_checkpoint(output))`.

    A run that is killed and resumed ends with the same weights, bit for bit, in float32 on a CPU
    with one thread: the run is one pass over the prompts, in an order that is written here, and
    checkpoints lie between updates.

    The model is the policy in float32, loaded from a folder; its frozen reference is loaded again,
    or is the policy without the adapters of `lora`. Rows have a `prompt`, a text or messages; every
    other column reaches the reward as a list, beside prompts, completions and completion_ids. It
    gives a number an answer, or None for an answer that is not to be learned from. Checkpoints go
    to `output`; `device` is `cpu` or the one accelerator that is visible.

    Raises:
        UsageError: where TRL or PEFT is not installed, PPO was not tested with this TRL, several
            accelerators are visible, or the reference could not be loaded.
    """
    datasets, peft, _ = import_training()
    one_device(device)
    config, trainer_class, more = _classes(recipe)
    trainer = trainer_class(
        model=model,
        reward_funcs=reward,
        args=configured(config, {**_options(recipe, output, device), **more}),
        train_dataset=datasets.Dataset.from_list([dict(row) for row in recipe.prompts(rows)]),
        processing_class=tokenizer,
        peft_config=None if lora is None else lora.config(peft),
        callbacks=list(callbacks),
    )
    trainer.remove_callback(import_transformers().PrinterCallback)
    return trainer


def _options(recipe: PolicyTraining, output: Path, device: str) -> dict[str, Any]:
    steps = recipe.steps_per_update
    save: dict[str, Any] = {"save_strategy": "no"}
    if recipe.save_every is not None:
        every = recipe.save_every * steps
        save = {"save_strategy": "steps", "save_steps": every, "save_total_limit": CHECKPOINTS}
    return {
        **trainer_options(recipe, recipe.updates * steps, output, device),
        "per_device_train_batch_size": recipe.at_once,
        "steps_per_generation": recipe.passes,
        "gradient_accumulation_steps": recipe.passes // recipe.minibatches,
        "num_iterations": recipe.epochs,
        "num_generations": recipe.group,
        "max_completion_length": recipe.max_new_tokens,
        "temperature": recipe.temperature,
        "beta": recipe.kl_coefficient,
        "epsilon": recipe.clip_range,
        "max_grad_norm": recipe.max_grad_norm,
        "disable_dropout": True,
        "shuffle_dataset": False,  # the order was made by `PolicyTraining.prompts`
        "remove_unused_columns": False,
        "logging_steps": steps,
        **save,
    }


def last_checkpoint(output: Path) -> Path | None:
    """Return the newest checkpoint that was written to its end, or None.

    >>> last_checkpoint(Path("nowhere")) is None
    True
    """
    numbered = {
        int(match[1]): path
        for path in output.glob("checkpoint-*")
        if (match := re.fullmatch(r"checkpoint-(\d+)", path.name))
    }
    whole = (numbered[k] for k in sorted(numbered, reverse=True) if _is_whole(numbered[k]))
    return next(whole, None)


def _is_whole(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / LAST_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True
