"""An OpenAI-compatible chat endpoint."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple, Unpack

from palate.engines.http import (
    ClientParts,
    HttpClient,
    HttpOutcome,
    HttpRequest,
    HttpSettings,
    body_of,
)
from palate.engines.http.replies import Reply, read_completion
from palate.records import Message

LONG_REPLY = 128
"""A reply that may have so many tokens is streamed where the server can."""


class Ask(NamedTuple):
    """One request."""

    messages: tuple[Message, ...]
    max_tokens: int
    top_logprobs: int = 0
    """How many alternatives of the first token to ask for; 0 for none."""


class ChatEndpoint:
    """Sends requests and yields replies as they come."""

    def __init__(self, settings: HttpSettings, **parts: Unpack[ClientParts]) -> None:
        self.settings = settings
        self.client = HttpClient(settings, noun="chat completion", **parts)

    def ask(self, asks: Iterable[Ask]) -> Generator[tuple[int, Reply]]:
        """Yield (position, reply) as they come; a request that fails for good has its reason.

        Asks are drawn as there is room for them; closing the generator calls off what is under
        way. Raises `EndpointError` where going on is pointless, as `HttpClient.ask` does.
        """
        with closing(self.client.ask(self._ask(ask) for ask in asks)) as outcomes:
            for position, outcome in outcomes:
                yield position, outcome.value[0] if outcome.value else failed(outcome)

    def _ask(self, ask: Ask) -> HttpRequest[list[Reply]]:
        fields: dict[str, Any] = {"temperature": 0} if self.settings.sends_temperature else {}
        if ask.top_logprobs:
            fields |= {"logprobs": True, "top_logprobs": ask.top_logprobs}
        return self._request(ask.messages, ask.max_tokens, fields)

    def _request(
        self, messages: Iterable[Message], max_tokens: int, fields: dict[str, Any], n: int = 1
    ) -> HttpRequest[list[Reply]]:
        body = {
            "model": self.settings.model,
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            self.settings.limit_field: max_tokens,
            **fields,
        }
        return HttpRequest(
            "chat/completions",
            body_of(body),
            partial(read_completion, most=n, limit=max_tokens),
            max_tokens * n,
            keeps=lambda replies: not any(reply.failure for reply in replies),
            streams=max_tokens >= LONG_REPLY,
        )


def failed(outcome: HttpOutcome[Any]) -> Reply:
    """Return the reply that stands for none."""
    return Reply(failure=outcome.failure, outage=outcome.outage, refusal=outcome.refusal)
