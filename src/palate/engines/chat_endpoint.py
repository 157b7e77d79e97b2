"""A chat endpoint as a language model: replies, samples, and the probabilities of labels."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from itertools import chain, count
from math import exp, log
from typing import Any, NamedTuple, Unpack

from palate.engines import language_model as lm
from palate.engines.endpoint_fields import ExtraFields
from palate.engines.endpoint_scores import LogProbabilities, PromptLogprobs
from palate.engines.http_client import ClientParts, HttpClient
from palate.engines.http_refusals import Refusal
from palate.engines.http_replies import NEVER, Reply, read_completion
from palate.engines.http_requests import (
    NO_TEMPERATURE,
    AllRefused,
    HttpOutcome,
    HttpRequest,
    HttpSettings,
    body_of,
)
from palate.engines.language_model import Ids, LanguageModel, Replies, Sampling
from palate.engines.reader import Reader
from palate.errors import EndpointError, UsageError
from palate.models import import_torch
from palate.records import Message, Messages
from palate.seeding import digest

LONG_REPLY = 128
"""A reply that may have so many tokens is streamed where the server can."""
MOST_AT_ONCE = 128
"""Replies asked for in one request."""
TOP_LOGPROBS = 20
"""Alternatives of a first token that endpoints are asked for."""
FEW_LOGPROBS = 5
"""Asked for where an endpoint refuses more, and does not say how many it allows."""
MARKS = "▁ĠĊ \t\n"
"""What tokens begin with where a word begins, written out by some servers."""
ROUNDING = 1e-6
"""Probability that the rounding of what is listed may hide."""
ABSENT = "unreadable: label %s is not among the first token's alternatives"
NEGLIGIBLE = 1e-3
"""Of three labels or more, the share of their probability that may go to unlisted ones."""


class EndpointLanguageModel(LanguageModel):
    """A chat endpoint: many requests at once, each by itself; its window is its own affair."""

    operations = frozenset(("generate", "label_logits"))

    def __init__(
        self,
        endpoint: ChatEndpoint,
        tokenizer: Reader | None = None,
        prompt_logprobs: PromptLogprobs | None = None,
        extra: ExtraFields | None = None,
    ) -> None:
        reached, self.extra = endpoint.settings, extra
        self.tokenizer, self.prompt_logprobs = tokenizer, prompt_logprobs
        if prompt_logprobs is not None:
            self.operations |= {"log_probabilities"}
        details = {"model": reached.model, "base_url": reached.base_url}
        own = {} if reached.sends_temperature else {"temperature": NO_TEMPERATURE}
        own |= extra.details if extra else {}
        identity = (*details.values(), *(f"{name}={value}" for name, value in own.items()))
        super().__init__(f"api:{reached.model}", identity, {**details, **own})
        self.endpoint = endpoint
        self.top_logprobs = TOP_LOGPROBS
        """Alternatives of a first token that are asked for; fewer where the endpoint says so."""
        self._allows = False

    @property
    def drawn_as(self) -> tuple[str, ...]:
        """Say where samples are drawn without a seed."""
        return () if self.endpoint.sends_seed else ("seed=none",)

    @property
    def notes(self) -> tuple[str, ...]:
        """Say so where another model answers, and how it was asked to reason."""
        return (*self.endpoint.client.notes, *(self.extra.notes if self.extra else ()))

    def asked_afresh(self) -> AbstractContextManager[None]:
        """Ask for what the cache holds as well, for a while; the new replies take its place."""
        replies = self.endpoint.client.replies
        return nullcontext() if replies is None else replies.asked_afresh()

    def label_logits(self, prompts: lm.Groups, labels: Sequence[str]) -> Replies:
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

    def log_probabilities(self, prompts: lm.Slates) -> lm.TokenLogs:
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
        whole = self.prompt_logprobs.ask(groups, self.tokenizer.window)
        return ((k, list(map(self._tensor, outcomes))) for k, outcomes in whole)

    def _tensor(self, outcome: LogProbabilities) -> Any:
        if outcome.value is None:
            raise EndpointError(f"{self.name}: no log p of a response ({outcome.failure})")
        return import_torch().tensor(outcome.value)

    def _greedy(
        self, prompts: lm.Groups, max_tokens: int, least_tokens: int, top_logprobs: int = 0
    ) -> Replies:
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
        self, prompts: lm.Prompts, wanted: lm.Numbers, how: Sampling, least_tokens: int
    ) -> Replies:
        both = zip(prompts, wanted, strict=True)
        draws = [SamplingRequest(_messages(prompt), tuple(which), how) for prompt, which in both]
        yield from self.endpoint.draw(draws)

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


def _messages(prompt: Messages | Ids) -> Messages:
    assert lm.is_conversation(prompt), "token ids mean nothing to an endpoint"
    return prompt


class Ask(NamedTuple):
    """One request."""

    messages: tuple[Message, ...]
    max_tokens: int
    top_logprobs: int = 0
    """How many alternatives of the first token to ask for; 0 for none."""


class SamplingRequest(NamedTuple):
    """One prompt, and which of its replies are wanted."""

    messages: tuple[Message, ...]
    numbers: tuple[int, ...]
    how: Sampling


class ChatEndpoint:
    """Sends requests and yields replies as they come.

    A request for samples asks for as many replies as are wanted (`n`). Servers that know no `n`
    send one, or refuse: what is missing is then asked for one by one, each with a seed of its own,
    so that neither a server nor a cache gives the same reply again because it was asked the same.
    """

    def __init__(
        self, settings: HttpSettings, extra: ExtraFields | None = None, **parts: Unpack[ClientParts]
    ) -> None:
        self.settings, self.extra = settings, extra
        self.client = HttpClient(settings, noun="chat completion", **parts)

    def ask(self, asks: Iterable[Ask]) -> Generator[tuple[int, Reply]]:
        """Yield (position, reply) as they come; a request that fails for good has its reason.

        Asks are drawn as there is room for them; closing the generator calls off what is under
        way. Raises `EndpointError` where going on is pointless, as `HttpClient.ask` does.
        """

        def request(ask: Ask) -> HttpRequest[list[Reply]]:
            fields: dict[str, Any] = {"temperature": 0} if self.settings.sends_temperature else {}
            if ask.top_logprobs:
                fields |= {"logprobs": True, "top_logprobs": ask.top_logprobs}
            return self._request(ask.messages, ask.max_tokens, fields)

        try:
            with closing(self.client.ask(map(request, asks))) as outcomes:
                for position, outcome in outcomes:
                    yield position, outcome.value[0] if outcome.value else failed(outcome)
        except AllRefused as error:
            if self.extra and error.refusal.field in self.extra.fields:
                self.extra.forget()
            raise

    def draw(self, draws: Sequence[SamplingRequest]) -> Iterator[tuple[int, int, Reply]]:
        """Yield (position, the reply's number, reply), each once; raises as `HttpClient.ask`."""
        missing: dict[int, list[int]] = {k: list(draw.numbers) for k, draw in enumerate(draws)}
        for alone in (False, True):
            seeded = True
            while missing and seeded:  # where seed is refused, once more without
                seeded = self.sends_seed
                try:
                    yield from self._round(draws, missing, alone=alone)
                except AllRefused as error:
                    several = not alone and max(map(len, missing.values())) > 1
                    unseeded = seeded and self._refuses_seed(error.refusal)
                    if not unseeded and not (several and error.refusal.field in ("n", "")):
                        raise
                seeded = seeded and not self.sends_seed

    @property
    def sends_seed(self) -> bool:
        """Whether requests bear a seed: not where the server has refused it."""
        return not self.client.ledger.notes(self.settings.place).get("seed")

    def _refuses_seed(self, refusal: Refusal | None) -> bool:
        if refusal is None or refusal.field != "seed":
            return False
        text = f"{self.settings.model} refuses seed, and samples are drawn without"
        self.client.ledger.note(self.settings.place, "seed", text)
        return True

    def _round(
        self, draws: Sequence[SamplingRequest], missing: dict[int, list[int]], *, alone: bool
    ) -> Iterator[tuple[int, int, Reply]]:
        # Takes out of `missing` what it yields.
        most = 1 if alone else MOST_AT_ONCE
        requests = [
            (k, numbers[first : first + most])
            for k, numbers in missing.items()
            for first in range(0, len(numbers), most)
        ]
        seeded = self.sends_seed
        posts = (self._drawing(draws[k], some) for k, some in requests)
        with closing(self.client.ask(posts)) as outcomes:
            for at, outcome in outcomes:
                k, wanted = requests[at]
                replies = outcome.value
                if replies is None:
                    if seeded and self._refuses_seed(outcome.refusal):
                        continue
                    if len(wanted) > 1 and not outcome.outage:
                        continue  # perhaps `n` is refused: each will be asked for alone
                    replies = [failed(outcome)] * len(wanted)
                for number, reply in zip(wanted, replies, strict=False):
                    if reply.outage and outcome.value is not None:
                        continue  # one of several in which the server failed
                    yield k, number, reply
                    missing[k].remove(number)
                if not missing[k]:
                    del missing[k]

    def _drawing(self, draw: SamplingRequest, numbers: list[int]) -> HttpRequest[list[Reply]]:
        how, fields = draw.how, dict[str, Any]()
        if self.settings.sends_temperature:
            fields |= {"temperature": how.temperature, "top_p": how.top_p}
        if self.sends_seed:
            plain = [message.model_dump() for message in draw.messages]
            fields["seed"] = int(digest("sample", how.seed, plain, numbers[0])[:7], 16)
        if len(numbers) > 1:
            fields["n"] = len(numbers)
        request = self._request(draw.messages, how.max_tokens, fields, len(numbers))
        return request if "seed" in fields else request._replace(number=numbers[0])

    def _request(
        self, messages: Iterable[Message], max_tokens: int, fields: dict[str, Any], n: int = 1
    ) -> HttpRequest[list[Reply]]:
        body = {
            "model": self.settings.model,
            "messages": [message.model_dump() for message in messages],
            self.settings.limit_field: max_tokens,
            **fields,
        }
        if self.extra:
            body |= self.extra.fields
        return HttpRequest(
            "chat/completions",
            body_of(body),
            partial(self._read, most=n, limit=max_tokens),
            max_tokens * n,
            keeps=lambda replies: not any(reply.failure for reply in replies),
            streams=max_tokens >= LONG_REPLY,
        )

    def _read(self, completion: Any, most: int, limit: int) -> list[Reply]:
        if self.extra:
            self.extra.saw(completion)
        return read_completion(completion, most, limit)


def failed(outcome: HttpOutcome[Any]) -> Reply:
    """Return the reply that stands for none."""
    return Reply(failure=outcome.failure, outage=outcome.outage, refusal=outcome.refusal)


class Unlisted(ValueError):
    """What is listed does not tell the labels apart; the message is the reason."""


def label_log_probabilities(
    listed: Mapping[str, float], labels: Sequence[str]
) -> tuple[float, ...]:
    """Return each label's log-probability; one that is not listed counts as its upper bound.

    That is the smallest that is listed; beside a label that is itself the smallest, what all that
    is listed leaves. Of two labels the listed one is then the more probable, by the difference or
    more. Raises `Unlisted` where the bound decides nothing, and where the labels have next to none
    of the probability.

    >>> label_log_probabilities({"A": -0.1, "The": -2.5, "An": -5.0}, ["A", "B"])
    (-0.1, -5.0)
    """
    finite = {token: logp for token, logp in listed.items() if logp > NEVER}
    best: dict[str, float] = {}
    for token, logp in finite.items():
        label = token.lstrip(MARKS).strip()
        best[label] = max(logp, best.get(label, logp))
    missing = [label for label in labels if label not in best]
    listed_labels = [best[label] for label in labels if label in best]
    if not listed_labels:
        raise Unlisted(ABSENT % missing[0])
    mass = sum(map(exp, listed_labels))
    if mass < lm.LEAST_SHARE:
        raise Unlisted(lm.UNLIKELY)
    if not missing:
        return tuple(listed_labels)
    most = max(listed_labels)
    bound = min(finite.values())
    if bound == most:  # the label is the last that is listed
        bound = log(max(1 - sum(map(exp, finite.values())), ROUNDING))
    share = len(missing) * exp(bound) / mass
    if bound >= most or (len(labels) > 2 and share > NEGLIGIBLE):
        raise Unlisted(f"{ABSENT % missing[0]}, and may be as probable")
    return tuple(best.get(label, bound) for label in labels)
