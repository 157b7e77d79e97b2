"""The door to language models: what they do in this process or behind an endpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeGuard, cast

from palate.engines.endpoint_fields import ExtraFields
from palate.engines.http_replies import Reply
from palate.engines.local_decoding import generate, sample
from palate.engines.local_model import LocalModel
from palate.engines.local_threads import map_ordered
from palate.engines.reader import Reader
from palate.errors import UsageError
from palate.marks import prompt_end
from palate.records import Message, Messages
from palate.seeding import digest

if TYPE_CHECKING:
    import torch

Ids = tuple[int, ...]
Prompts = Sequence[Messages | Ids]
"""Conversations, or in this process their token ids."""
Groups = Iterable[Prompts]
"""Prompts; those of one group begin alike."""
Numbers = Sequence[Sequence[int]]
"""Of each prompt, which samples are wanted."""
Replies = Iterator[tuple[int, int, Reply]]
"""(group, position in it or number of the sample, reply) as they come, each once."""
Slates = Iterable[tuple[Messages, Sequence[str]]]
"""Prompts, and the responses to each."""
TokenLogs = Iterator[tuple[int, list["torch.Tensor"]]]
"""(position, for each response to the prompt log p of its tokens in turn)."""
Operation = Literal["generate", "label_logits", "log_probabilities", "next_token_logits"]
TOO_LONG = "too long"
NO_LIMIT = 10**9
LEAST_SHARE = 1e-6
"""Probability of all labels together below which a model is about to write something else."""
UNLIKELY = "unreadable: the labels have less than a millionth of the probability; use verdict=text"


class Sampling(NamedTuple):
    """How a token is drawn, and how many at most."""

    max_tokens: int
    temperature: float
    top_p: float
    seed: int


class LanguageModel(ABC):
    """Writes replies and says how probable tokens are; `supports` tells what a form can do."""

    operations: frozenset[Operation]
    reader: Reader | None = None
    """Its tokenizer and template, where it runs in this process."""
    extra: ExtraFields | None = None
    """What its requests hold beside palate's own fields, where it is behind an endpoint."""

    def __init__(self, name: str, identity: tuple[str, ...], details: Mapping[str, Any]) -> None:
        self.name, self.identity, self.details = name, identity, details

    @property
    def place(self) -> str:
        """Where it computes: `local` or `endpoint`."""
        return "endpoint" if self.reader is None else "local"

    @property
    def fingerprint(self) -> str:
        """Hash of what it is: content, dtype and device; or its name and the endpoint."""
        return digest(self.place, *self.identity)

    @property
    def drawn_as(self) -> tuple[str, ...]:
        """What samples depend on beside `identity`: a seed that an endpoint does not take."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What an endpoint does otherwise than it was asked."""
        return ()

    @property
    def window(self) -> int | None:
        """Tokens of a prompt and its reply together; None where that is not known."""
        return None if self.reader is None else self.reader.window

    def supports(self, operation: Operation) -> bool:
        """Tell whether it can do this; what it cannot raises `UsageError`."""
        return operation in self.operations

    def text(self, messages: Messages, *, labels: bool = False) -> str:
        """Return a prompt as the model reads it, before a reply or before one of its labels."""
        if self.reader is None:
            return "\n\n".join(f"[{m.role}]\n{m.content}" for m in messages)
        template = self.reader.template
        if labels:
            return template.answer_text(messages)
        return template.text(messages, generation=True)

    def generate(
        self,
        prompts: Groups,
        n: int = 1,
        *,
        max_tokens: int,
        least_tokens: int | None = None,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        numbers: Numbers | None = None,
    ) -> Replies:
        """Yield the likeliest reply to each prompt, or n samples of each group's one prompt.

        Samples are drawn at a temperature above 0; `numbers` names those that are wanted of each
        prompt. Sample k in this process depends on model, prompt, seed and k alone. A prompt that
        leaves no room for `least_tokens` (by default `max_tokens`) has the failure "too long".

        Raises `UsageError` for several replies at temperature 0: they would all be one.
        """
        least_tokens = least_tokens or max_tokens
        if temperature:
            groups = [prompt for (prompt,) in prompts]
            wanted = numbers if numbers is not None else [range(n)] * len(groups)
            how = Sampling(max_tokens, temperature, top_p, seed)
            yield from self._samples(groups, wanted, how, least_tokens)
        elif n == 1 and numbers is None:
            yield from self._greedy(prompts, max_tokens, least_tokens)
        else:
            raise UsageError(f"{self.name}: {n} replies to a prompt need a temperature above 0")

    def asked_afresh(self) -> AbstractContextManager[None]:
        """Ask for what a cache of replies holds as well, for a while."""
        return nullcontext()

    @abstractmethod
    def label_logits(self, prompts: Groups, labels: Sequence[str]) -> Replies:
        """Yield replies whose `labels` hold the logits of these as the next token.

        Only differences between labels have a meaning. Raises `ModelError` for a label that is not
        one token, `EndpointError` where an endpoint sends no log-probabilities.
        """

    def log_probabilities(self, prompts: Slates) -> TokenLogs:
        """Yield (position, for each response to the prompt log p of its tokens in turn)."""
        raise UsageError(f"{self.name}: a chat endpoint gives no log-probabilities of responses")

    def next_token_logits(self, sequences: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the logits of every next token (sequences × vocabulary), on the model's device."""
        raise UsageError(f"{self.name}: a chat endpoint gives no logits of every next token")

    @abstractmethod
    def _greedy(self, prompts: Groups, max_tokens: int, least_tokens: int) -> Replies: ...

    @abstractmethod
    def _samples(
        self, prompts: Prompts, wanted: Numbers, how: Sampling, least_tokens: int
    ) -> Replies: ...


class LocalLanguageModel(LanguageModel):
    """A causal model in this process; what the prompts of a group share is read once."""

    operations = frozenset(("generate", "label_logits", "log_probabilities", "next_token_logits"))
    reader: Reader

    def __init__(self, reader: Reader, load: Callable[[], LocalModel]) -> None:
        ends = reader.end_details
        more = reader.template_details, ends, reader.compile_details
        identity = (*reader.weights, *(value for it in more for value in it.values()))
        super().__init__(str(reader.reference), identity, {**reader.details, **ends})
        self.reader, self.load = reader, load

    def _greedy(self, prompts: Groups, max_tokens: int, least_tokens: int) -> Replies:
        for k, group in enumerate(prompts):
            encoded = self._fitting(group, least_tokens)
            yield from ((k, j, Reply(failure=TOO_LONG)) for j, ids in enumerate(encoded) if not ids)
            fits = [j for j, ids in enumerate(encoded) if ids]
            if fits:
                sequences = [encoded[j] for j in fits]
                room = (self.window or NO_LIMIT) - max(map(len, sequences))
                for i, text, cut in generate(self.load(), sequences, min(max_tokens, room)):
                    yield k, fits[i], Reply(self._begun(group[fits[i]]) + text, cut)

    def _samples(
        self, prompts: Prompts, wanted: Numbers, how: Sampling, least_tokens: int
    ) -> Replies:
        encoded = self._fitting(prompts, least_tokens)
        for k, ids in enumerate(encoded):
            if not ids:
                yield from ((k, number, Reply(failure=TOO_LONG)) for number in wanted[k])
        if not any(encoded):
            return
        model = self.load()
        _ = model.head  # made by one thread
        jobs = (
            (k, partial(sample, model, ids, len(wanted[k]), numbers=wanted[k], **how._asdict()))
            for k, ids in enumerate(encoded)
            if ids
        )
        with model.in_use():
            for k, drawn in map_ordered(model.torch, model.device, jobs, model.turns):
                for number, continuation in zip(wanted[k], drawn, strict=True):
                    text = self._begun(prompts[k]) + continuation.text
                    yield k, number, Reply(text, continuation.cut_off)

    def _begun(self, prompt: Messages | Ids) -> str:
        """Return the mark of the thought that a conversation's prompt ends within, if any."""
        if not (self.reader.thought and is_conversation(prompt)):
            return ""
        return prompt_end(self.reader.template.text(prompt, generation=True)).mark

    def label_logits(self, prompts: Groups, labels: Sequence[str]) -> Replies:
        """Yield the labels' logits; the prompts of many groups are read together."""
        fits: dict[int, list[bool]] = {}

        def that_fit() -> Iterator[list[Ids]]:
            for k, group in enumerate(prompts):
                encoded = self._fitting(group, 1, self.reader.template.answer_prompt)
                fits[k] = [bool(ids) for ids in encoded]
                yield [ids for ids in encoded if ids]

        model = self.load()
        ids = [self.reader.template.label_id(label) for label in labels]
        for k, of_group in model.label_logits(that_fit(), ids):
            rest = iter(of_group)
            for j, fit in enumerate(fits.pop(k)):
                if not fit:
                    yield k, j, Reply(failure=TOO_LONG)
                elif not (logits := next(rest)).share >= LEAST_SHARE:  # nor NaN
                    yield k, j, Reply(failure=UNLIKELY if logits.share < 1 else "no finite number")
                else:
                    yield k, j, Reply(labels=logits.values)

    def log_probabilities(self, prompts: Slates) -> TokenLogs:
        """Yield log p of each response's tokens; a prompt's responses share its cache."""
        continuation = self.reader.template.continuation
        groups = ([continuation(messages, text) for text in texts] for messages, texts in prompts)
        return self.load().log_probabilities(groups)

    def next_token_logits(self, sequences: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the logits of every next token, on the model's device."""
        return self.load().next_token_logits(sequences)

    def _fitting(
        self, prompts: Prompts, room: int, encode: Callable[[Messages], Ids] | None = None
    ) -> list[Ids]:
        # () stands for what is too long.
        limit = (self.window or NO_LIMIT) - room
        encode = encode or self.reader.template.prompt
        encoded = [encode(p) if is_conversation(p) else cast(Ids, p) for p in prompts]
        return [ids if len(ids) <= limit else () for ids in encoded]


def is_conversation(prompt: Messages | Ids) -> TypeGuard[Messages]:
    """Tell a conversation from token ids."""
    return isinstance(prompt[0], Message)
