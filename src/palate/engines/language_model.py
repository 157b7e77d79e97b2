"""The one door to language models: in this process, or behind an endpoint."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, cast

from palate.engines.endpoints.chat import Ask
from palate.engines.endpoints.labels import (
    LEAST_SHARE,
    UNLIKELY,
    Unlisted,
    label_log_probabilities,
)
from palate.engines.endpoints.prompt_logprobs import LogProbabilities, PromptLogprobs
from palate.engines.endpoints.sampling import Sampling, SamplingEndpoint, SamplingRequest
from palate.engines.http import NO_TEMPERATURE
from palate.engines.http.replies import Reply
from palate.engines.local import LabelLogits, LocalModel, generate, sample
from palate.engines.local.threads import map_ordered
from palate.engines.text.reader import Reader
from palate.errors import EndpointError, UsageError
from palate.marks import prompt_end
from palate.models import import_torch
from palate.records import Message
from palate.seeding import digest

if TYPE_CHECKING:
    import torch

Messages = tuple[Message, ...]
Ids = tuple[int, ...]
Prompts = Sequence[Messages | Ids]
"""Conversations, or in this process their token ids."""
Groups = Iterable[Prompts]
"""Prompts; those of one group begin alike."""
Numbers = Sequence[Sequence[int]]
"""Of each prompt, which samples are wanted."""
Replies = Iterator[tuple[int, int, Reply]]
"""(group, position in it or number of the sample, reply) as they come, each once."""
Operation = Literal["generate", "label_logits", "log_probabilities", "next_token_logits"]
TOO_LONG = "too long"
TOP_LOGPROBS = 20
"""Alternatives of a first token that endpoints are asked for."""
FEW_LOGPROBS = 5
"""Asked for where an endpoint refuses more, and does not say how many it allows."""
NO_LIMIT = 10**9


class LanguageModel(ABC):
    """Writes replies and says how probable tokens are; `supports` tells what a form can do."""

    operations: frozenset[Operation]
    reader: Reader | None = None
    """Its tokenizer and template, where it runs in this process."""

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
        return (
            template.answer_text(messages) if labels else template.text(messages, generation=True)
        )

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

    def log_probabilities(
        self, prompts: Iterable[tuple[Messages, Sequence[str]]]
    ) -> Iterator[tuple[int, list[torch.Tensor]]]:
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
        identity = (*reader.weights, *reader.template_details.values(), *ends.values())
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
        for k, logits in model.label_logits(that_fit(), ids):
            values = iter(logits)
            for j, fit in enumerate(fits.pop(k)):
                yield k, j, _of_labels(next(values)) if fit else Reply(failure=TOO_LONG)

    def log_probabilities(
        self, prompts: Iterable[tuple[Messages, Sequence[str]]]
    ) -> Iterator[tuple[int, list[torch.Tensor]]]:
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
        encoded = [encode(it) if is_conversation(it) else cast(Ids, it) for it in prompts]
        return [ids if len(ids) <= limit else () for ids in encoded]


class EndpointLanguageModel(LanguageModel):
    """A chat endpoint: many requests at once, each by itself; its window is its own affair."""

    operations = frozenset(("generate", "label_logits"))

    def __init__(
        self,
        endpoint: SamplingEndpoint,
        tokenizer: Reader | None = None,
        prompt_logprobs: PromptLogprobs | None = None,
    ) -> None:
        reached = endpoint.settings
        self.tokenizer, self.prompt_logprobs = tokenizer, prompt_logprobs
        if prompt_logprobs is not None:
            self.operations |= {"log_probabilities"}
        details = {"model": reached.model, "base_url": reached.base_url}
        identity: tuple[str, ...] = (reached.model, reached.base_url)
        if not reached.sends_temperature:
            details["temperature"] = NO_TEMPERATURE
            identity = (*identity, f"temperature={NO_TEMPERATURE}")
        super().__init__(f"api:{reached.model}", identity, details)
        self.endpoint = endpoint
        self.top_logprobs = TOP_LOGPROBS
        """Alternatives of a first token that are asked for; fewer where the endpoint says so."""
        self._allows = False

    @property
    def drawn_as(self) -> tuple[str, ...]:
        """Say where samples are drawn without a seed."""
        return () if self.endpoint.sends_seed else ("seed=none",)

    def asked_afresh(self) -> AbstractContextManager[None]:
        """Ask for what the cache holds as well, for a while; the new replies take its place."""
        replies = self.endpoint.client.replies
        return nullcontext() if replies is None else replies.asked_afresh()

    def label_logits(self, prompts: Groups, labels: Sequence[str]) -> Replies:
        """Yield the log-probabilities of labels among the first token's alternatives.

        One that is not listed counts as its bound, so a margin beside it is a lower bound.
        """
        groups, first = iter(prompts), 0
        if not self._allows:  # the first prompt alone shows how many alternatives it lists
            head = next(groups, ())
            if head:
                yield 0, 0, self._labels(self._first(head[0]), labels)
            first, groups = len(head[:1]), chain([head[1:]], groups)
        for k, j, reply in self._greedy(groups, 1, 1, self.top_logprobs):
            yield k, j if k else j + first, self._labels(reply, labels)

    def _first(self, prompt: Messages | Ids) -> Reply:
        """Return the reply to one prompt, asking for fewer alternatives where 20 are refused."""
        while True:
            ((_, reply),) = self.endpoint.ask([Ask(_messages(prompt), 1, self.top_logprobs)])
            if reply.refusal is None or reply.refusal.field not in ("top_logprobs", "logprobs"):
                self._allows = reply.failure is None
                return reply
            if self.top_logprobs <= FEW_LOGPROBS:
                raise EndpointError(
                    f"{self.identity[1]}: {reply.failure} (model {self.identity[0]}); "
                    f"{reply.refusal.words or 'it gives no log-probabilities'}; use verdict=text"
                )
            named = map(int, re.findall(r"\b\d{1,2}\b", reply.refusal.words))
            fewer = [n for n in named if 0 < n < self.top_logprobs]
            self.top_logprobs = max(fewer, default=FEW_LOGPROBS)

    def log_probabilities(
        self, prompts: Iterable[tuple[Messages, Sequence[str]]]
    ) -> Iterator[tuple[int, list[torch.Tensor]]]:
        """Yield log p of each response's tokens, read by the endpoint as prompts.

        Raises `UsageError` where no tokenizer was named, `EndpointError` for a response that the
        endpoint gives no numbers of.
        """
        if self.tokenizer is None or self.prompt_logprobs is None:
            raise UsageError(
                f"{self.name}: log-probabilities of responses need the model's tokenizer, as in "
                "&tokenizer=ORG/MODEL"
            )
        continuation = self.tokenizer.template.continuation
        groups = ([continuation(messages, text) for text in texts] for messages, texts in prompts)
        asked = self.prompt_logprobs.ask(groups, self.tokenizer.window)
        return ((k, list(map(self._tensor, outcomes))) for k, outcomes in asked)

    def _tensor(self, outcome: LogProbabilities) -> torch.Tensor:
        if outcome.value is None:
            raise EndpointError(f"{self.name}: no log p of a response ({outcome.failure})")
        numbers: torch.Tensor = import_torch().tensor(outcome.value)
        return numbers

    def _greedy(
        self, prompts: Groups, max_tokens: int, least_tokens: int, top_logprobs: int = 0
    ) -> Replies:
        del least_tokens
        under_way: dict[int, tuple[int, int]] = {}

        def asks() -> Iterator[Ask]:
            position = count()
            for k, group in enumerate(prompts):
                for j, prompt in enumerate(group):
                    under_way[next(position)] = k, j
                    yield Ask(_messages(prompt), max_tokens, top_logprobs)

        with closing(self.endpoint.ask(asks())) as replies:
            for position, reply in replies:
                yield (*under_way.pop(position), reply)

    def _samples(
        self, prompts: Prompts, wanted: Numbers, how: Sampling, least_tokens: int
    ) -> Replies:
        del least_tokens
        yield from self.endpoint.draw(
            [
                SamplingRequest(_messages(prompt), tuple(which), how)
                for prompt, which in zip(prompts, wanted, strict=True)
            ]
        )

    def _labels(self, reply: Reply, labels: Sequence[str]) -> Reply:
        if reply.failure is not None:
            return reply
        if reply.first_token is None:
            model, base_url = self.identity[:2]
            raise EndpointError(
                f"{base_url}: no log-probabilities came back for model {model}; use verdict=text"
            )
        try:
            return reply._replace(labels=label_log_probabilities(reply.first_token, labels))
        except Unlisted as error:
            return reply._replace(failure=str(error))


def _of_labels(logits: LabelLogits) -> Reply:
    if logits.share < LEAST_SHARE:
        return Reply(failure=UNLIKELY)
    return Reply(labels=logits.values)


def is_conversation(prompt: Messages | Ids) -> TypeGuard[Messages]:
    """Tell a conversation from token ids."""
    return isinstance(prompt[0], Message)


def _messages(prompt: Messages | Ids) -> Messages:
    assert is_conversation(prompt), "token ids mean nothing to an endpoint"
    return prompt
