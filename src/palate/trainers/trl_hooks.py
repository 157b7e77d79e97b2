"""Every use of what TRL and transformers keep private: the one file to read when TRL changes.

| hook | what is relied on |
|---|---|
| `GRPOConfig.__post_init__` | it refuses one answer a prompt; afterwards 1 may be set |
| `_get_per_token_logps_and_entropies` | reads the decoder once; positional model … tokens kept |
| `_calculate_rewards` | rewards (answers × functions) of all processes; None is NaN |
| `_generate_and_score_completions` | masks and the log-probabilities of policy and reference |
| `_compute_loss` | the loss of one pass; what divides it for accumulation is the loss's own |
| `_metrics`, `_logs["advantages"]` | what is logged at the next logging step |
| `_name`, `_tag_names`, `_paper`, `_is_vlm` | what the model card says; whether images are read |
| `_save_optimizer_and_scheduler` | called before `trainer_state.json`, a checkpoint's last file |
| `_load_optimizer_and_scheduler` | called with the checkpoint, after weights and before steps |
| `config._name_or_path` | where the frozen reference is loaded from |
| `trainer.utils._use_triton` | decides whether the head reads all tokens, or the answers' alone |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
import trl
from safetensors import SafetensorError
from safetensors.torch import save
from trl.trainer.grpo_trainer import GRPOTrainer

from palate.errors import ModelError, UsageError
from palate.files import write_whole
from palate.models.loading import fill

TESTED = "1.16"
fused_head: Any = import_module("trl.trainer.utils")
Batch = dict[str, Any]
HEAD_FILE = "value_head.safetensors"


class Rollout(NamedTuple):
    """Answers that the policy wrote, and what is known of them (answers × tokens)."""

    mask: torch.Tensor
    """1 where the policy chose the token."""
    log_probs: torch.Tensor
    """Of the policy that wrote them."""
    reference_log_probs: torch.Tensor | None
    """Of the frozen reference; None where no KL is asked for."""
    values: torch.Tensor
    scores: torch.Tensor
    """The weighted sum of the reward functions, one an answer; NaN where all gave None."""


class Advantages(NamedTuple):
    """Advantages and returns of a rollout (answers × tokens)."""

    mask: torch.Tensor
    """1 where a token is learned from."""
    advantages: torch.Tensor
    returns: torch.Tensor


class PolicyPass(NamedTuple):
    """One pass of the policy in training over a part of a rollout (answers × tokens)."""

    log_probs: torch.Tensor
    entropies: torch.Tensor
    values: torch.Tensor


class OldPass(NamedTuple):
    """The rollout's own pass, over the same part of it (answers × tokens)."""

    log_probs: torch.Tensor
    values: torch.Tensor
    advantages: Advantages


def refuse_untested(version: str) -> None:
    """Raise `UsageError` unless this version of TRL is one whose private hooks were tested.

    >>> refuse_untested("1.17.0")
    Traceback (most recent call last):
    palate.errors.UsageError: TRL 1.17.0 is here; training a policy needs pip install 'trl==1.16.*'
    """
    if not f"{version}.".startswith(f"{TESTED}."):
        raise UsageError(
            f"TRL {version} is here; training a policy needs pip install 'trl=={TESTED}.*'"
        )


def answers_of_two(config: Any) -> int:
    """Return 2 or more answers a prompt that `GRPOConfig` accepts; `UsageError` for one a batch."""
    passes = config.steps_per_generation or config.gradient_accumulation_steps
    one_pass = config.per_device_train_batch_size
    number: int = one_pass if one_pass > 1 else config.generation_batch_size or passes
    if number < 2:
        raise UsageError("PPO: 1 answer an update; whitening needs at least 2")
    return number


@contextmanager
def head_reads_answers_alone() -> Iterator[None]:
    """Multiply by the output's weights where an answer's tokens are chosen, on a CPU too.

    There TRL also does it at every token of the prompt, and throws the numbers away: with prompts
    of 200 tokens and answers of 32, two fifths of an update's time. Raises `UsageError` for an
    untested TRL.
    """
    refuse_untested(trl.__version__)
    before = fused_head._use_triton
    fused_head._use_triton = lambda device: True
    try:
        yield
    finally:
        fused_head._use_triton = before


class ActorCriticTrainer(GRPOTrainer, ABC):
    """TRL's GRPO trainer with a critic, and its private hooks behind four plain methods.

    A subclass gives `compute_advantages` (of a rollout), `loss` (of one pass), and `save_state` and
    `load_state` (what a checkpoint holds beside TRL's own). Text models alone, on one or more
    devices without sharded weights.
    """

    _name, _tag_names = "PPO", ["trl", "ppo"]
    _paper = {"title": "Proximal Policy Optimization Algorithms", "id": "1707.06347"}
    value_head: ValueHead
    model: Any
    args: Any
    _logs: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse_untested(trl.__version__)
        super().__init__(*args, **kwargs)
        if self.is_deepspeed_enabled or self.is_fsdp_enabled or self._is_vlm:
            raise UsageError("PPO trains text models without DeepSpeed or FSDP; use rloo or grpo")
        if self.aux_loss_enabled:
            raise UsageError("PPO has no router loss for mixtures of experts; use rloo or grpo")
        width = self.model.config.get_text_config().hidden_size
        self.value_head = ValueHead(width).to(self.accelerator.device)
        self._passes: list[torch.Tensor] = []
        self._scores: torch.Tensor | None = None

    @abstractmethod
    def compute_advantages(self, rollout: Rollout) -> Advantages:
        """Return advantages and returns of a rollout."""

    @abstractmethod
    def loss(self, now: PolicyPass, old: OldPass, total: torch.Tensor) -> torch.Tensor:
        """Return the loss of a pass: a sum over tokens, divided by the total of the whole step."""

    @abstractmethod
    def save_state(self, folder: Path) -> None:
        """Write what a checkpoint holds beside TRL's own."""

    @abstractmethod
    def load_state(self, folder: Path) -> None:
        """Read what `save_state` wrote."""

    def note(self, metrics: Mapping[str, torch.Tensor | float]) -> None:
        """Log means over processes, at the next logging step."""
        mode = "train" if self.model.training else "eval"
        for name, value in metrics.items():
            number = torch.as_tensor(float(value), device=self.accelerator.device)
            self._metrics[mode][name].append(self.accelerator.reduce(number, "mean").item())

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Any,
        attention_mask: Any,
        logits_to_keep: int,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        whole = self.accelerator.unwrap_model(model)
        with self.value_head.reading(whole) as passes:
            result = super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
            )
        self._passes.append(completion_values(passes, logits_to_keep))
        return result

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        rewards = super()._calculate_rewards(*args, **kwargs)
        scores = (rewards * self.reward_weights.to(rewards.device)).nansum(dim=1)
        self._scores = scores.masked_fill(rewards.isnan().all(dim=1), torch.nan)
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> Batch:
        self._passes.clear()
        batch: Batch = super()._generate_and_score_completions(inputs)
        scores, tokens = self._scores, batch["completion_ids"].shape[1]
        assert scores is not None  # it was computed on the way
        if "old_per_token_logps" in batch:
            values = self._passes[0]  # TRL reads the policy first, then the reference
        else:
            with torch.no_grad():
                batch["old_per_token_logps"], _, _ = self._get_per_token_logps_and_entropies(
                    self.model, *_sequences(batch), tokens, self.args.per_device_train_batch_size
                )
            values = self._passes[-1]
        mask = (batch["completion_mask"] * batch.get("tool_mask", 1)).float()
        first = self.accelerator.process_index * len(mask)
        log_probs, reference = batch["old_per_token_logps"], batch.get("ref_per_token_logps")
        here = scores[first : first + len(mask)]
        estimated = self.compute_advantages(Rollout(mask, log_probs, reference, values, here))
        learned = estimated.mask.sum(dim=1)
        means = (estimated.advantages * estimated.mask).sum(dim=1) / learned.clamp(min=1)
        self._logs["advantages"].extend(self.accelerator.gather(means).tolist())
        for metrics in self._metrics.values():
            metrics.pop("frac_reward_zero_std", None)  # of groups, which PPO does not compare
        return {
            **batch,
            "tool_mask": estimated.mask,  # TRL multiplies its own loss by it; here it is the mask
            "advantages": estimated.advantages,
            "returns": estimated.returns,
            "values": values,
            "num_items_in_batch": self.accelerator.gather(learned).sum(),
        }

    def _compute_loss(self, model: Any, inputs: Batch) -> torch.Tensor:
        tokens = inputs["completion_ids"].shape[1]
        self._passes.clear()
        log_probs, entropies, _ = self._get_per_token_logps_and_entropies(
            model, *_sequences(inputs), tokens, compute_entropy=True
        )
        advantages = Advantages(inputs["tool_mask"], inputs["advantages"], inputs["returns"])
        old = OldPass(inputs["old_per_token_logps"], inputs["values"], advantages)
        # A mean over the tokens of all passes of a step: gradients are averaged over processes.
        total = inputs["num_items_in_batch"] / self.accelerator.num_processes
        if self.model.training:
            parts = self.args.steps_per_generation / self.current_gradient_accumulation_steps
            total = total / parts
        return self.loss(PolicyPass(log_probs, entropies, self._passes.pop()), old, total)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:
            self.save_state(Path(output_dir))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:  # first: a checkpoint of another algorithm is told apart by it
            self.load_state(Path(checkpoint))
        super()._load_optimizer_and_scheduler(checkpoint)  # type: ignore[no-untyped-call]


def _sequences(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return prompts with their completions, and the mask of both."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    return ids, torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)


class ValueHead(torch.nn.Module):
    """V(s) = w · h(s) + b; h is the last hidden state of the policy's decoder, after its norm.

    It starts as 0, in float32 whatever the policy computes in. The hidden state is detached: the
    value loss fits the critic, and only the policy loss moves the policy.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, 1)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return V of every position (answers × positions) of hidden states (… × width)."""
        with torch.autocast(hidden.device.type, enabled=False):
            values: torch.Tensor = self.linear(hidden.detach().float())
        return values.squeeze(-1)

    @contextmanager
    def reading(self, model: Any) -> Iterator[list[torch.Tensor]]:
        """Give a list that gets the values of all positions at each forward pass of a model.

        A hook on the decoder: TRL multiplies by the output's weights itself, and never calls
        `lm_head` or asks for hidden states.
        """
        passes: list[torch.Tensor] = []

        def note(module: Any, inputs: Any, output: Any) -> None:
            passes.append(self(output.last_hidden_state))

        hook = model.get_decoder().register_forward_hook(note)
        try:
            yield passes
        finally:
            hook.remove()

    def save(self, folder: Path) -> None:
        """Write the weights into a checkpoint's folder."""
        weights = {name: it.detach().cpu().contiguous() for name, it in self.state_dict().items()}
        write_whole(folder / HEAD_FILE, save(weights))

    def load(self, folder: Path) -> None:
        """Read the weights of a checkpoint; raises `ModelError` where it has none that fit."""
        try:
            fill(self, folder / HEAD_FILE)
        except (OSError, RuntimeError, SafetensorError) as error:
            raise ModelError(
                f"{folder / HEAD_FILE}: no critic of this policy; resume from a checkpoint of PPO"
            ) from error


def completion_values(passes: list[torch.Tensor], tokens: int) -> torch.Tensor:
    """Return V of the states in which the last `tokens` were chosen: one position earlier each.

    >>> completion_values([torch.tensor([[10.0, 11.0, 12.0, 13.0]])], 2).tolist()
    [[11.0, 12.0]]
    """
    return torch.cat(passes)[:, -tokens - 1 : -1]
