"""An OpenAI-compatible chat endpoint."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from palate.engines.http import (
    Clock,
    HttpClient,
    HttpRequest,
    HttpSettings,
    Ledger,
    Transport,
    UnusableReply,
    body_of,
)
from palate.records import Message
from palate.stores import Documents

LONG_REPLY = 128
"""A reply that may have so many tokens is streamed where the server can."""


class Ask(NamedTuple):
    """One request."""

    messages: tuple[Message, ...]
    max_tokens: int
    top_logprobs: int = 0
    """How many alternatives of the first token to ask for; 0 for none."""


class Reply(NamedTuple):
    """One answer, or the reason there is none."""

    text: str = ""
    cut_off: bool = False
    first_token: Mapping[str, float] | None = None
    """Log-probabilities of the first token's alternatives, where they came back."""
    labels: tuple[float, ...] | None = None
    """Logits of the labels that were asked for, up to a constant."""
    failure: str | None = None
    outage: bool = False
    """The endpoint did not answer: asking again later may help, unlike after a refusal."""


class ChatEndpoint:
    """Sends requests and yields replies as they come."""

    def __init__(
        self,
        settings: HttpSettings,
        *,
        ledger: Ledger | None = None,
        replies: Documents | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings
        self.client = HttpClient(
            settings,
            noun="chat completion",
            ledger=ledger,
            replies=replies,
            transport=transport,
            clock=clock,
        )

    def ask(self, asks: Iterable[Ask]) -> Generator[tuple[int, Reply]]:
        """Yield (position, reply) as they come; a request that fails for good has its reason.

        Asks are drawn as there is room for them; closing the generator calls off what is under
        way. Raises `EndpointError` where going on is pointless: the key or the model is refused.
        """
        with closing(self.client.ask(self._post(ask) for ask in asks)) as outcomes:
            for position, outcome in outcomes:
                if outcome.value is not None:
                    yield position, outcome.value
                else:
                    yield position, Reply(failure=outcome.failure, outage=outcome.outage)

    def _post(self, ask: Ask) -> HttpRequest[Reply]:
        body = self._body(ask.messages, ask.max_tokens) | {"temperature": 0}
        if ask.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": ask.top_logprobs}
        return HttpRequest(
            "chat/completions",
            body_of(body),
            read_reply,
            ask.max_tokens,
            streams=ask.max_tokens >= LONG_REPLY,
        )

    def _body(self, messages: Iterable[Message], max_tokens: int) -> dict[str, Any]:
        return {
            "model": self.settings.model,
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            self.settings.limit_field: max_tokens,
        }


def read_reply(completion: Any) -> Reply:
    """Read a chat completion; raises whatever looking into it raises where it is not one."""
    choice = completion["choices"][0]
    reply = read_choice(choice)
    if reply.failure is not None:
        raise UnusableReply(reply.failure)
    content = (choice.get("logprobs") or {}).get("content") or []
    listed = (content[0].get("top_logprobs") or [content[0]]) if content else []
    pairs = [(str(a["token"]), float(a["logprob"])) for a in listed]
    # A token listed twice counts as listed first.
    return reply._replace(first_token=dict(reversed(pairs)) if pairs else None)


def read_choice(choice: Any) -> Reply:
    """Read the text of one of a completion's choices."""
    text = choice["message"].get("content") or ""
    if not isinstance(text, str):
        raise TypeError("content is no text")
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        return Reply(failure="refused by the endpoint's content filter")
    return Reply(text, reason == "length")
