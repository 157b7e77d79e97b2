"""Guides made of models alone, for tests of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from palate.engines import ChatTemplate, LocalModel, Reader
from palate.guidance import GuidedRow, Reading
from palate.records import Message, Settings, Slate
from palate.specs import Reference

SLATE = Slate(question=(), candidates=("a", "b"))
WORDS = "Tell me what to cook tonight, on an open fire, without a scale. "


def load(folder: str, head: str = "causal", **settings: Any) -> LocalModel:
    given = {"dtype": "float32", **settings}
    return LocalModel(Reader(Reference.parse(str(folder)), Settings(**given)), head)


def prompt(local: LocalModel, repeated: int = 4) -> tuple[int, ...]:
    message = Message(role="user", content=WORDS * repeated)
    return ChatTemplate(local.tokenizer).prompt((message,))


@dataclass
class Direction:
    """A prefix guide: a fixed direction of the model's state."""

    models: tuple[LocalModel, ...]
    closing: Sequence[int]
    pad: int | None = None
    readers: tuple[Any, ...] = ()

    def in_place(self) -> Any:
        return nullcontext()

    def read(self, slate: Slate, room: int) -> Reading:
        raise NotImplementedError

    def read_position(self, ids: Sequence[int]) -> int:
        return next((k for k in range(len(ids) - 1, -1, -1) if ids[k] != self.pad), len(ids) - 1)

    def rewards(self, outputs: torch.Tensor, slates: Sequence[Slate]) -> torch.Tensor:
        assert len(outputs) == len(slates)
        direction = torch.linspace(-1, 1, outputs.shape[-1], device=outputs.device)
        return outputs.float() @ direction


def rows_of(
    policy_prompts: Sequence[Sequence[int]], guide_prompts: Sequence[Sequence[Sequence[int]]],
    numbers: Sequence[int] | None = None,
) -> list[GuidedRow]:  # fmt: skip
    given = range(len(policy_prompts)) if numbers is None else numbers
    return [
        GuidedRow(ids, Reading(SLATE, tuple(theirs)), k)
        for ids, theirs, k in zip(policy_prompts, guide_prompts, given, strict=True)
    ]
