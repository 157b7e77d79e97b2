"""Low-rank adapters on a language model, and what is learned of a row: prompt and reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from palate.engines import ChatTemplate, Encoded
from palate.errors import UsageError
from palate.models import import_torch
from palate.prompts import render
from palate.records import Choice, PreferencePair

IGNORED = -100
"""The label of a token that no loss is taken of."""


@dataclass(frozen=True)
class Lora:
    """W + (alpha / rank) · B A on every linear layer but the output's (arXiv 2106.09685)."""

    rank: int = 16
    alpha: int = 16
    dropout: float = 0.05

    def __post_init__(self) -> None:
        """Refuse what cannot be meant; raises `UsageError`."""
        for name, holds, expected in (
            ("rank", self.rank >= 1, "1 or more"),
            ("alpha", self.alpha >= 1, "1 or more"),
            ("dropout", 0 <= self.dropout < 1, "0 or more and below 1"),
        ):
            if not holds:
                raise UsageError(f"lora: {name}={getattr(self, name)}: expected {expected}")

    def config(self, peft: Any) -> Any:
        """Return the adapters as PEFT wants them."""
        return peft.LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            lora_dropout=self.dropout,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        )


class TrainingExample(NamedTuple):
    """A prompt and the reply that is to be learned, which starts at `start`."""

    ids: tuple[int, ...]
    start: int

    @property
    def width(self) -> int:
        """Tokens of both."""
        return len(self.ids)

    @property
    def labels(self) -> list[int]:
        """The reply's tokens; the prompt's are ignored."""
        return [IGNORED] * self.start + list(self.ids[self.start :])

    @property
    def columns(self) -> dict[str, Sequence[int]]:
        """What TRL's trainer reads of it."""
        return {"input_ids": self.ids, "labels": self.labels}


class EncodedChoice(NamedTuple):
    """Both closed conversations of a choice, end of turn included."""

    chosen: Encoded
    rejected: Encoded

    @property
    def width(self) -> int:
        """Tokens of the longer conversation."""
        return max(len(self.chosen.ids), len(self.rejected.ids))

    @property
    def columns(self) -> dict[str, Sequence[int]]:
        """What `collate` reads of it."""
        chosen, rejected = self
        starts = (chosen.start, rejected.start)
        return {"chosen_ids": chosen.ids, "rejected_ids": rejected.ids, "starts": starts}


def encode_choice(choice: Choice | PreferencePair, template: ChatTemplate) -> EncodedChoice:
    """Return both conversations as the scorers read them, with nothing shown."""
    question = render(choice.messages)
    sides = (template.closed(question, text) for text in (choice.chosen, choice.rejected))
    return EncodedChoice(*sides)


def collate(pad: int) -> Callable[[Sequence[dict[str, Any]]], dict[str, Any]]:
    """Return what makes a batch of TRL's DPOTrainer of encoded choices, without a reference.

    The reference's log-probabilities are 0. TRL's own batches have one prompt for both replies;
    here each reply starts where its scorer says, though a token may span the seam.
    """
    from trl.trainer.dpo_trainer import DataCollatorForPreference

    torch, padded = import_torch(), DataCollatorForPreference(pad_token_id=pad)

    def batch(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
        tensors: dict[str, Any] = padded(
            [{"prompt_ids": [], **{k: list(v) for k, v in row.items()}} for row in rows]
        )
        starts = torch.tensor([row["starts"] for row in rows]).T.reshape(-1, 1)
        mask = tensors["completion_mask"]
        mask[torch.arange(mask.shape[1]) < starts] = 0
        zero = torch.zeros(len(rows))
        return {**tensors, "ref_chosen_logps": zero, "ref_rejected_logps": zero}

    return batch
