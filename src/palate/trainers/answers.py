"""Answers that a policy in training writes: how far each is from the start, and its reward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from palate.engines import decoded
from palate.errors import OutsideError
from palate.marks import OPEN_THOUGHT
from palate.records import Progress
from palate.rewards import EMPTY, Reward, RewardValue
from palate.seeding import digest
from palate.trainers.held_out import PolicyAnswer
from palate.trainers.plan import RewardOptions

LOGITS_AT_ONCE = 2**25
"""Numbers of logits at a time: 128 MiB in float32, of which a few copies are made."""


@dataclass(frozen=True)
class AnswerWriter:
    """Writes answers by a trainer's policy, as the trainer itself samples.

    Numbers are drawn from the seed and an answer's place alone, so that two policies are compared
    on the same draws, and what is drawn here changes no number of the training.
    """

    trainer: Any
    """Of TRL: its policy, tokenizer, settings of generation, and reference."""
    reference: Any
    """The frozen starting policy; None where the policy without its adapters is that."""
    at_once: int
    temperature: float
    seed: int

    def write(
        self, prompts: Sequence[Sequence[int]], n: int, progress: Progress
    ) -> list[tuple[PolicyAnswer, ...]]:
        """Return n answers to each prompt of ids."""
        flat = [prompt for prompt in prompts for _ in range(n)]
        answers: list[PolicyAnswer] = []
        with self._sampling() as model:
            for first in range(0, len(flat), self.at_once):
                batch = flat[first : first + self.at_once]
                torch.manual_seed(int(digest("held-out answers", self.seed, first)[:15], 16))
                answers += self._batch(model, batch)
                progress(len(answers), len(flat))
        return [tuple(answers[k : k + n]) for k in range(0, len(answers), n)]

    @contextmanager
    def _sampling(self) -> Iterator[Any]:
        from trl.models.utils import unwrap_model_for_generation

        trainer = self.trainer
        training, device = trainer.model.training, trainer.accelerator.device
        devices = [] if device.type == "cpu" else [device]
        trainer.model.eval()
        try:
            with (
                torch.random.fork_rng(devices, device_type=device.type if devices else "cuda"),
                torch.no_grad(),
                trainer.accelerator.autocast(),
                unwrap_model_for_generation(
                    trainer.model, trainer.accelerator, generation_kwargs=trainer.generation_kwargs
                ) as model,
            ):
                yield model
        finally:
            trainer.model.train(training)

    def _batch(self, model: Any, prompts: Sequence[Sequence[int]]) -> Iterator[PolicyAnswer]:
        trainer, device = self.trainer, self.trainer.accelerator.device
        tokenizer, width = trainer.processing_class, max(map(len, prompts))
        pads = [width - len(prompt) for prompt in prompts]
        padded = zip(pads, prompts, strict=True)
        ids = torch.tensor([[tokenizer.pad_token_id] * pad + [*prompt] for pad, prompt in padded])
        mask = torch.tensor([[0] * pad + [1] * (width - pad) for pad in pads])
        ids, mask = ids.to(device), mask.to(device)
        written = model.generate(
            input_ids=ids, attention_mask=mask, generation_config=trainer.generation_config
        )[:, width:]
        is_end = torch.isin(written, torch.tensor(trainer.eos_token_ids, device=device))
        behind = is_end.int().cumsum(1) - is_end.int()
        counts = behind == 0  # the first end is a token of the answer
        ids, mask = torch.cat([ids, written], dim=1), torch.cat([mask, counts.long()], dim=1)
        most = max(1, LOGITS_AT_ONCE // (written.shape[1] * model.config.vocab_size))
        for first in range(0, len(written), most):
            part = slice(first, first + most)
            sums = self._sums(model, ids[part], mask[part], written[part], counts[part])
            for k, summed in enumerate(sums.tolist(), first):
                tokens = written[k][counts[k]].tolist()
                yield PolicyAnswer(
                    text=decoded(tokenizer, tokens),
                    ended=bool(is_end[k].any()),
                    tokens=len(tokens),
                    log_ratio=summed[0],
                    kl=summed[1],
                    entropy=summed[2],
                )

    def _sums(
        self, model: Any, ids: Tensor, mask: Tensor, written: Tensor, counts: Tensor
    ) -> Tensor:
        """Return log-ratio, KL and entropy of each answer (answers × 3)."""
        tokens = written.shape[1]
        now = self._log_probs(model, ids, mask, tokens)
        with model.disable_adapter() if self.reference is None else nullcontext():
            start = self._log_probs(self.reference or model, ids, mask, tokens)
        apart = now - start
        log_ratios = apart.gather(2, written.unsqueeze(2)).squeeze(2)
        divergences, entropies = (now.exp() * apart).sum(2), -(now.exp() * now).sum(2)
        stacked = torch.stack([log_ratios, divergences, entropies], dim=2)
        return stacked.double().masked_fill(~counts.unsqueeze(2), 0).sum(1)

    def _log_probs(self, model: Any, ids: Tensor, mask: Tensor, tokens: int) -> Tensor:
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        logits = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=False,
            logits_to_keep=tokens + 1,
        ).logits
        scaled: Tensor = logits[:, :-1].float() / self.temperature
        return scaled.log_softmax(-1)


MISSING_EOS = "cut off before its end"


@dataclass
class TrainingReward:
    """Gives TRL a number for each answer, or None for one that teaches nothing.

    An answer that was cut off is scored as it stands, masked, or given a number. What cannot be
    scored is masked too; where that is more than a share of a step's answers, the run ends.
    """

    reward: Reward
    ends: frozenset[int]
    """Ids that end an answer."""
    options: RewardOptions = field(default_factory=RewardOptions)
    tokenizer: Any = None
    """The policy's: TRL decodes without special tokens, and a thought's marks may be such."""
    counts: Counter[str] = field(default_factory=Counter)
    """Answers since the last look, and of them those without an end, and without a reward."""
    __name__ = "reward"

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        *,
        row: Sequence[str],
        **_: Any,
    ) -> list[float | None]:
        """Return a step's rewards; `OutsideError` over `max_unscored`, and what scoring raises."""
        del prompts  # a thought that they would open is closed
        if self.tokenizer is not None:
            completions = [decoded(self.tokenizer, ids) for ids in completion_ids]
        open_ended = [not ids or ids[-1] not in self.ends for ids in completion_ids]
        missing_eos = self.options.missing_eos
        scored = [k for k, cut in enumerate(open_ended) if missing_eos == "score" or not cut]
        rewards = self.reward.of_rows([row[k] for k in scored], [completions[k] for k in scored])
        values = dict(zip(scored, rewards, strict=True))
        number = None if isinstance(missing_eos, str) else missing_eos
        cut_off = RewardValue(number, MISSING_EOS)
        self.counts.update(answers=len(completions), missing_eos=sum(open_ended))
        self._check([value for value in rewards if value.value is None], len(completions))
        return [values.get(k, cut_off).value for k in range(len(completions))]

    def _check(self, unscored: Sequence[RewardValue], answers: int) -> None:
        self.counts["unscored"] += len(unscored)
        if len(unscored) > (most := self.options.max_unscored) * answers:
            reasons = Counter(str(value.reason) for value in unscored).most_common()
            named = "; ".join(f"{n} {reason}" for reason, n in reasons)
            raise OutsideError(
                f"{len(unscored)} of {answers} answers of a step have no reward ({named}), more "
                f"than --max-unscored {most:g}; {_advice(reasons[0][0])}"
            )


def _advice(reason: str) -> str:
    """Return what helps against the most frequent reason."""
    if reason == EMPTY:
        problem = "the policy has come to write them"
        return f"{problem}: hold it back by a larger --kl, or raise the share"
    if reason == OPEN_THOUGHT:
        return "give the policy more tokens (?max_tokens=), or raise the share"
    return "mend the scorer, or raise it, and run the same command again to go on"
