"""A policy as the engine has it and as a user of transformers has, and a plain processor."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
import transformers

from palate.guidance import CandidateRows, Candidates, FusedRows, GuidedRow, Writing, write
from palate.records import Message, Settings, Slate
from palate.scorers import build_scorer
from palate.specs import Reference
from palate.uses.logits_processor import guidance

F32 = Settings(dtype="float32", device="cpu")
QUESTIONS = [
    "Tea?",
    "What should I cook tonight for two friends who like it hot?",
    "Coffee or tea?",
]
LENGTH = 12


class World:
    """A policy twice: as the engine has it, and as a user of transformers has."""

    def __init__(self, session: Any, arm: str, policy: str) -> None:
        self.session, self.folder = session, policy
        self.arm, self.lm = arm, session.language_model(policy, F32)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(
            self.lm.reader.folder, padding_side="left"
        )
        self.tokenizer.pad_token = self.tokenizer.eos_token
        self.model = causal(self.lm.reader.folder)

    def batch(self, questions: list[str] = QUESTIONS) -> Any:
        turns = [[{"role": "user", "content": text}] for text in questions]
        return self.tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
        )

    def guidance(self, questions: Any = QUESTIONS, **given: Any) -> Any:
        given = {"max_new_tokens": LENGTH, "session": self.session, "settings": F32, **given}
        scorer = given.pop("scorer", f"autoregressive:{self.arm}")
        return guidance(scorer, self.model, self.tokenizer, questions, **given)

    def generate(self, processor: Any, batch: Any = None, **how: Any) -> list[list[int]]:
        batch = self.batch() if batch is None else batch
        how = {"do_sample": False, "max_new_tokens": LENGTH, **how}
        made = self.model.generate(
            **batch, logits_processor=[] if processor is None else [processor],
            pad_token_id=self.tokenizer.pad_token_id, **how,
        )  # fmt: skip
        return [
            until_end(row, self.lm.reader.ends)
            for row in made[:, batch["input_ids"].shape[1] :].tolist()
        ]

    def naive(self, weight: float, batch: Any) -> Naive:
        """Return a processor that reads every row anew at each step."""
        pads = (batch["attention_mask"] == 0).sum(1).tolist()
        folder = self.session.folder(Reference.parse(self.arm)).path
        return Naive(causal(folder), weight, pads)

    def written(
        self, law: Any, n: int, scorer: Any = None, users: Sequence[str | None] = (None,) * 3
    ) -> list[list[int]]:
        """Return what the engine writes at temperature 0."""
        scorer = scorer or f"autoregressive:{self.arm}"
        built = build_scorer(scorer, self.session, F32) if isinstance(scorer, str) else scorer
        policy = self.session.model_of(self.lm.reader, "causal")
        guide = built.prefix_guide() if isinstance(law, Candidates) else built.token_guide()
        kind: Any = CandidateRows if isinstance(law, Candidates) else FusedRows
        slates = []
        for text, user in zip(QUESTIONS, users, strict=True):
            question = (Message(role="user", content=text),)
            slates.append(Slate(question=question, candidates=("",), user=user))
        prompts = [self.lm.reader.template.prompt(slate.question) for slate in slates]
        rows = [
            GuidedRow(ids, guide.read(slate, LENGTH), k)
            for (ids, slate), k in product(zip(prompts, slates, strict=True), range(n))
        ]
        with guide.in_place():
            made = write(kind(law, policy, guide, rows, LENGTH), policy, rows, Writing(LENGTH, 0))
        return [it.ids for it in made]


def until_end(ids: list[int], ends: Any) -> list[int]:
    return ids[: next((k for k, token in enumerate(ids) if token in ends), len(ids))]


class Naive(transformers.LogitsProcessor):
    """log p + w log q, every row read by itself from its beginning."""

    def __init__(self, guide: Any, weight: float, pads: list[int]) -> None:
        self.guide, self.weight, self.pads = guide, weight, pads

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        each, read = len(input_ids) // len(self.pads), []
        for k, row in enumerate(input_ids):
            with torch.no_grad():
                logits = self.guide(row[None, self.pads[k // each] :]).logits[0, -1]
            read.append(logits.float().log_softmax(-1))
        return scores.log_softmax(-1) + self.weight * torch.stack(read)


def causal(folder: Any) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
