"""An OpenAI-compatible chat endpoint."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from typing import Any, NamedTuple, Unpack

from palate.engines.http import (
    ClientParts,
    FailedReply,
    HttpClient,
    HttpOutcome,
    HttpRequest,
    HttpSettings,
    Refusal,
    body_of,
)
from palate.records import Message

THOUGHT_ALONE = "only a thought came back"
THOUGHTS = {"thinking", "reasoning", "redacted_thinking"}
"""Types of the parts of a message that are thoughts."""
FAILED = {"error", "abort"}
"""How a reply ends in which the server failed, or was stopped."""

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
    refusal: Refusal | None = None
    """What the endpoint refused, where it did."""


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
        with closing(self.client.ask(self._post(ask) for ask in asks)) as outcomes:
            for position, outcome in outcomes:
                if outcome.value is not None:
                    yield position, outcome.value
                else:
                    yield position, failed(outcome)

    def _post(self, ask: Ask) -> HttpRequest[Reply]:
        body = self._body(ask.messages, ask.max_tokens)
        if self.settings.sends_temperature:
            body["temperature"] = 0
        if ask.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": ask.top_logprobs}
        return HttpRequest(
            "chat/completions",
            body_of(body),
            read_reply,
            ask.max_tokens,
            keeps=is_whole,
            streams=ask.max_tokens >= LONG_REPLY,
        )

    def _body(self, messages: Iterable[Message], max_tokens: int) -> dict[str, Any]:
        return {
            "model": self.settings.model,
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            self.settings.limit_field: max_tokens,
        }


def failed(outcome: HttpOutcome[Any]) -> Reply:
    """Return the reply that stands for none."""
    return Reply(failure=outcome.failure, outage=outcome.outage, refusal=outcome.refusal)


def is_whole(reply: Reply) -> bool:
    """Tell whether a reply may be kept: a failed one may not."""
    return reply.failure is None


def read_reply(completion: Any) -> Reply:
    """Read a chat completion; raises whatever looking into it raises where it is not one.

    Raises `FailedReply` where the server failed while it replied.
    """
    choice = completion["choices"][0]
    reply = read_choice(choice)
    if reply.outage:
        raise FailedReply(reply.failure)
    if reply.failure is not None:
        return reply
    return reply._replace(first_token=_first_token(choice))


def read_choice(choice: Any) -> Reply:
    """Read one of a completion's choices; one in which the server failed is an outage."""
    message, ending = choice["message"], choice.get("finish_reason", "stop")
    if choice.get("error") or ending in FAILED:
        return Reply(failure="the server failed within its reply", outage=True)
    if ending is None:
        return Reply(failure="the reply broke off", outage=True)
    if str(ending).startswith("content_filter"):
        return Reply(failure="refused by the endpoint's content filter")
    content = message.get("content")
    if not (content is None or isinstance(content, str | list)):
        return Reply(failure="the reply's content is no text")
    text, thought = _text_of(content)
    thought |= any(message.get(name) for name in ("reasoning_content", "reasoning"))
    cut_off = ending == "length"
    if thought and not text.strip() and not cut_off:
        return Reply(failure=THOUGHT_ALONE)
    return Reply(text, cut_off)


def _text_of(content: str | list[Any] | None) -> tuple[str, bool]:
    # A text, or a list of parts, of which some are thoughts; the second tells whether any is.
    if not isinstance(content, list):
        return content or "", False
    parts = [part if isinstance(part, dict) else {"type": "text", "text": part} for part in content]
    texts = [
        part["text"]
        for part in parts
        if isinstance(part.get("text"), str) and part.get("type") not in THOUGHTS
    ]
    return "".join(texts), any(part.get("type") in THOUGHTS for part in parts)


def _first_token(choice: Any) -> dict[str, float] | None:
    # A token listed twice counts as listed first; one without a number is not listed.
    content = (choice.get("logprobs") or {}).get("content") or []
    listed = (content[0].get("top_logprobs") or [content[0]]) if content else []
    pairs = [(str(a["token"]), float(a["logprob"])) for a in listed if a["logprob"] is not None]
    return dict(reversed(pairs)) or None
