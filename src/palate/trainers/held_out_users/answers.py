"""Answers that a policy in training writes, and how far each is from the starting policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from palate.engines.text.marks import decoded
from palate.records import Progress
from palate.seeding import digest

LOGITS_AT_ONCE = 2**25
"""Numbers of logits at a time: 128 MiB in float32, of which a few copies are made."""


class PolicyAnswer(NamedTuple):
    """One answer; sums over its tokens, its end included."""

    text: str
    ended: bool
    """False where it was cut off at the most tokens."""
    tokens: int
    log_ratio: float
    """log π(y) − log π_ref(y), whose mean is an unbiased estimate of the KL divergence."""
    kl: float
    """Σ_t KL(π(· | y_<t) ‖ π_ref(· | y_<t)): the same mean, with less noise, never negative."""
    entropy: float
    """Σ_t of the policy's entropy, in nats."""


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
        pad, ends = trainer.processing_class.pad_token_id, trainer.eos_token_ids
        width = max(map(len, prompts))
        ids = torch.tensor([[pad] * (width - len(it)) + list(it) for it in prompts])
        mask = torch.tensor([[0] * (width - len(it)) + [1] * len(it) for it in prompts])
        ids, mask = ids.to(device), mask.to(device)
        written = model.generate(
            input_ids=ids, attention_mask=mask, generation_config=trainer.generation_config
        )[:, width:]
        is_end = torch.isin(written, torch.tensor(ends, device=device))
        behind = is_end.int().cumsum(1) - is_end.int()
        counts = behind == 0  # the first end is a token of the answer
        ids, mask = torch.cat([ids, written], dim=1), torch.cat([mask, counts.long()], dim=1)
        most = max(1, LOGITS_AT_ONCE // (written.shape[1] * model.config.vocab_size))
        for first in range(0, len(written), most):
            part = slice(first, first + most)
            sums = self._sums(model, ids[part], mask[part], written[part], counts[part])
            for k, (log_ratio, kl, entropy) in enumerate(sums.tolist(), first):
                tokens = written[k][counts[k]]
                yield PolicyAnswer(
                    decoded(trainer.processing_class, tokens.tolist()),
                    bool(is_end[k].any()),
                    len(tokens),
                    log_ratio,
                    kl,
                    entropy,
                )

    def _sums(
        self,
        model: Any,
        ids: torch.Tensor,
        mask: torch.Tensor,
        written: torch.Tensor,
        counts: torch.Tensor,
    ) -> torch.Tensor:
        """Return log-ratio, KL and entropy of each answer (answers × 3)."""
        now = self._log_probs(model, ids, mask, written.shape[1])
        adapters = model.disable_adapter() if self.reference is None else nullcontext()
        with adapters:
            start = self._log_probs(self.reference or model, ids, mask, written.shape[1])
        apart = now - start
        stacked = torch.stack(
            [
                apart.gather(2, written.unsqueeze(2)).squeeze(2),
                (now.exp() * apart).sum(2),
                -(now.exp() * now).sum(2),
            ],
            dim=2,
        )
        return stacked.double().masked_fill(~counts.unsqueeze(2), 0).sum(1)

    def _log_probs(
        self, model: Any, ids: torch.Tensor, mask: torch.Tensor, tokens: int
    ) -> torch.Tensor:
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        logits = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=False,
            logits_to_keep=tokens + 1,
        ).logits
        scaled: torch.Tensor = logits[:, :-1].float() / self.temperature
        return scaled.log_softmax(-1)
