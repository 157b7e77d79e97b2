"""An OpenAI-compatible chat endpoint: bounded concurrency, retries, nothing lost."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import httpx2

from palate.errors import EndpointError, SpecError
from palate.records import Message, Record

RETRIED = {408, 409, 425, 429, 500, 502, 503, 504}
REFUSED = {401: "the key was refused", 403: "access was refused", 404: "no such path or model"}


class ChatSettings(Record):
    """Where an endpoint is and how it may be used; the key comes from the environment."""

    model: str
    base_url: str
    key_env: str = "PALATE_API_KEY"
    concurrency: int = 8
    timeout_s: float = 120.0
    retries: int = 5
    max_wait_s: float = 60.0


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
    failure: str | None = None


class ChatEndpoint:
    """Sends requests and yields replies as they come."""

    def __init__(
        self,
        settings: ChatSettings,
        *,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not settings.base_url.startswith(("http://", "https://")):
            raise SpecError(f"base_url={settings.base_url!r}: expected http://… or https://…")
        self.settings, self._sleep = settings, sleep
        key = os.environ.get(settings.key_env)
        self._client = httpx2.Client(
            base_url=settings.base_url.rstrip("/") + "/",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=settings.timeout_s,
            transport=transport,
        )

    def ask(self, asks: Sequence[Ask]) -> Iterator[tuple[int, Reply]]:
        """Yield (position, reply) as they come; a request that fails for good has its reason.

        Raises `EndpointError` where going on is pointless: the key or the model is refused.
        """
        with ThreadPoolExecutor(self.settings.concurrency) as pool:
            waiting = {pool.submit(self._one, ask): k for k, ask in enumerate(asks)}
            try:
                for done in as_completed(waiting):
                    yield waiting[done], done.result()
            finally:
                for future in waiting:
                    future.cancel()

    def _one(self, ask: Ask) -> Reply:
        reason = "no answer"
        for attempt in range(self.settings.retries + 1):
            try:
                response = self._client.post("chat/completions", json=self._body(ask))
            except httpx2.TimeoutException:
                reason, wait = f"no answer within {self.settings.timeout_s:g} s", None
            except httpx2.TransportError as error:
                reason, wait = f"connection failed ({type(error).__name__})", None
            else:
                if response.status_code == 200:
                    reply = read_reply(response)
                    if reply is not None:
                        return reply
                    reason, wait = "the reply was no chat completion", None
                elif response.status_code in REFUSED:
                    why = REFUSED[response.status_code]
                    raise EndpointError(
                        f"{self.settings.base_url}: HTTP {response.status_code}, {why} "
                        f"(model {self.settings.model}, key from ${self.settings.key_env})"
                    )
                else:
                    reason = f"HTTP {response.status_code}"
                    if response.status_code not in RETRIED:
                        return Reply(failure=reason)
                    wait = retry_after(response)
            if attempt < self.settings.retries:
                self._sleep(min(self.settings.max_wait_s, pause(attempt, wait)))
        return Reply(failure=f"{reason}, {self.settings.retries + 1} attempts")

    def _body(self, ask: Ask) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": [{"role": m.role, "content": m.content} for m in ask.messages],
            "max_tokens": ask.max_tokens,
            "temperature": 0,
        }
        if ask.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": ask.top_logprobs}
        return body


def pause(attempt: int, asked: float | None) -> float:
    """Return how long to wait: what the server asked for, else 0.5 s doubling, with jitter."""
    return asked if asked is not None else 0.5 * 2.0**attempt * random.uniform(0.5, 1.5)


def retry_after(response: httpx2.Response) -> float | None:
    """Read `Retry-After`, in seconds or as a date."""
    value = response.headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def read_reply(response: httpx2.Response) -> Reply | None:
    """Read a chat completion; None where the body is not one."""
    try:
        choice = response.json()["choices"][0]
        text = choice["message"].get("content") or ""
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    first: dict[str, float] | None = None
    content = (choice.get("logprobs") or {}).get("content") or []
    if content:
        first = {}
        for alternative in content[0].get("top_logprobs") or [content[0]]:
            first.setdefault(alternative["token"], alternative["logprob"])
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        return Reply(failure="refused by the endpoint's content filter")
    return Reply(str(text), reason == "length", first)
