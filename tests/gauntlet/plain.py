"""What every scorer's numbers are held against: plain transformers, one sequence at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
import transformers

from palate.prompts import pair_prompt, rating_prompt, render
from palate.records import Message, Slate

Ids = list[int]
NEIGHBOUR = [5, 6, 7, 8, 9]


class Plain:
    """A model and its tokenizer as transformers load them, in float32."""

    def __init__(self, folder: str, auto: str, kind: str) -> None:
        self.folder, self.auto, self.kind = folder, auto, kind
        self._known: dict[tuple[int, ...], torch.Tensor] = {}

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer, with its chat template."""
        return transformers.AutoTokenizer.from_pretrained(self.folder)

    @cached_property
    def model(self) -> Any:
        """The model; each forward is of one sequence, without padding or cache."""
        loader = getattr(transformers, self.auto)
        model = loader.from_pretrained(self.folder, dtype=torch.float32).eval()
        # Texts are embedded by the encoder of T5, which is a model of its own.
        return model.get_encoder() if self.auto == "AutoModel" and _is_t5(model) else model

    def text(self, messages: Sequence[Message], response: str | None = None) -> str:
        """Return a conversation that the model is to answer, or one closed by this response."""
        turns = [{"role": m.role, "content": m.content} for m in messages]
        if response is not None:
            turns.append({"role": "assistant", "content": response})
        return self.tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=response is None
        )

    def ids(self, text: str) -> Ids:
        """Return the ids of a conversation, as `apply_chat_template` tokenises it."""
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def split(self, prompt: str, whole: str) -> tuple[Ids, int]:
        """Return the ids of a text, and the first that is not of the prompt alone."""
        assert whole.startswith(prompt)
        made = self.tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
        ends = [end for _, end in made["offset_mapping"]]
        return made["input_ids"], next(k for k, end in enumerate(ends) if end > len(prompt))

    def prompt_and(self, slate: Slate, response: str, closed: bool = False) -> tuple[Ids, int]:
        """Return the ids of question and response, and where the response starts."""
        messages = render(slate.question, slate.shown)
        prompt = self.text(messages)
        whole = self.text(messages, response) if closed else prompt + response
        return self.split(prompt, whole)

    @torch.inference_mode()
    def outputs(self, ids: Ids) -> torch.Tensor:
        """Return what the model makes of one sequence: logits, or states where it has no head."""
        if tuple(ids) not in self._known:
            made = self.model(input_ids=torch.tensor([ids]))
            outputs = made.logits if "logits" in made else made.last_hidden_state
            self._known[tuple(ids)] = outputs[0]
        return self._known[tuple(ids)].double()

    def log_probabilities(self, ids: Ids, start: int) -> torch.Tensor:
        """Return log p of every token from `start` on."""
        logp = torch.log_softmax(self.outputs(ids)[:-1], dim=-1)
        return logp[range(start - 1, len(ids) - 1), ids[start:]]

    def likelihood(self, slate: Slate) -> list[float]:
        """Return the mean log p of each response's tokens, the end of turn left out."""
        both = [self.prompt_and(slate, text) for text in slate.candidates]
        return [float(self.log_probabilities(*each).mean()) for each in both]

    def lift(self, slate: Slate) -> list[float]:
        """Return by how much what is shown raises the likelihood."""
        blind = self.likelihood(slate.without_context())
        return [a - b for a, b in zip(self.likelihood(slate), blind, strict=True)]

    def autoregressive(self, slate: Slate) -> list[float]:
        """Return log p of each response, the end of turn included."""
        both = [self.prompt_and(slate, text, closed=True) for text in slate.candidates]
        return [float(self.log_probabilities(*each).sum()) for each in both]

    def labels(self, messages: Sequence[Message], labels: Sequence[str]) -> list[float]:
        """Return the logits of labels, each the token it is in a conversation that it closes."""
        prompt = self.text(messages)
        ids, logits = self.ids(prompt), None
        found = []
        for label in labels:
            closed = self.text(messages, label)
            upto = closed.index(label, len(prompt)) + len(label)
            *before, token = self.ids(closed[:upto])
            assert before == ids, "the label takes part of the prompt, or more than one token"
            logits = self.outputs(ids)[-1] if logits is None else logits
            found.append(float(logits[token]))
        return found

    def judge(self, slate: Slate) -> list[float]:
        """Return the log-odds that the first of two responses is better, over both orders."""
        (a, b), (c, d) = (
            self.labels(pair_prompt(slate, *order, "letter"), ("A", "B"))
            for order in ((0, 1), (1, 0))
        )
        return [((a - b) - (c - d)) / 2]

    def rating(self, slate: Slate) -> list[float]:
        """Return the mean digit under the probabilities of the digits."""
        digits = range(1, 10)
        means = []
        for k in range(len(slate.candidates)):
            logits = self.labels(rating_prompt(slate, k, "letter", 1, 9), list(map(str, digits)))
            weights = [math.exp(it - max(logits)) for it in logits]
            means.append(sum(n * w for n, w in zip(digits, weights, strict=True)) / sum(weights))
        return means

    def reward(self, slate: Slate, output: int) -> list[float]:
        """Return one output of the classifier's own head for each closed conversation."""
        messages = render(slate.question, slate.shown)
        texts = [self.text(messages, text) for text in slate.candidates]
        return [float(self.outputs(self.ids(text))[output]) for text in texts]

    @torch.inference_mode()
    def reply(self, messages: Sequence[Message], tokens: int) -> str:
        """Return the greedy reply."""
        ids = torch.tensor([self.ids(self.text(messages))])
        pad = self.tokenizer.pad_token_id
        made = self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            do_sample=False,
            pad_token_id=self.tokenizer.eos_token_id if pad is None else pad,
        )
        return self.tokenizer.decode(made[0, ids.shape[1] :], skip_special_tokens=True)

    def similarity(self, slate: Slate) -> list[float]:
        """Return the cosine of each response with the mean of what is shown, by token count."""
        parts = [self._vector(part.text) for part in slate.shown]
        user = sum(count * vector for vector, count in parts)
        responses = [self._vector(text)[0] for text in slate.candidates]
        return [float(torch.cosine_similarity(user, it, dim=0)) for it in responses]

    def _vector(self, text: str) -> tuple[torch.Tensor, int]:
        framed = self.tokenizer(text)["input_ids"]
        states = self.outputs(framed)
        vector = states[-1] if self.kind == "decoder" else states.mean(dim=0)
        return vector / vector.norm(), len(self.ids(text))


def _is_t5(model: Any) -> bool:
    return model.config.model_type == "t5"


class Neighboured(Plain):
    """The same model read wrongly: tokens of another sequence are seen before the last two."""

    def __init__(self, plain: Plain) -> None:
        super().__init__(plain.folder, plain.auto, plain.kind)
        self.model, self.tokenizer = plain.model, plain.tokenizer

    def outputs(self, ids: Ids) -> torch.Tensor:
        """Return the outputs of one sequence that another leaked into."""
        made = super().outputs([*ids[:-2], *NEIGHBOUR, *ids[-2:]])
        if len(made) != len(ids) + len(NEIGHBOUR):
            return made  # of a whole sequence
        return torch.cat([made[: len(ids) - 2], made[-2:]])
