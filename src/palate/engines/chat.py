"""An OpenAI-compatible chat endpoint: bounded concurrency, retries, nothing lost."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import httpx2

from palate.errors import EndpointError, SpecError, UsageError
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
    limit_field: str = "max_tokens"
    """How the endpoint calls the limit on a reply; newer ones want `max_completion_tokens`."""


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
    outage: bool = False
    """The endpoint did not answer: asking again later may help, unlike after a refusal."""


class ChatEndpoint:
    """Sends requests and yields replies as they come."""

    def __init__(
        self,
        settings: ChatSettings,
        *,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        _check_url(settings.base_url)
        self.settings, self._sleep = settings, sleep
        key = os.environ.get(settings.key_env, "").strip()
        if not (key.isascii() and key.isprintable()):
            raise UsageError(f"${settings.key_env} holds characters that no key has")
        self._client = httpx2.Client(
            base_url=settings.base_url.rstrip("/") + "/",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=settings.timeout_s,
            limits=httpx2.Limits(max_connections=settings.concurrency),
            transport=transport,
        )

    def ask(self, asks: Sequence[Ask]) -> Iterator[tuple[int, Reply]]:
        """Yield (position, reply) as they come; a request that fails for good has its reason.

        Raises `EndpointError` where going on is pointless: the key or the model is refused.
        """
        stop = threading.Event()
        with ThreadPoolExecutor(self.settings.concurrency) as pool:
            waiting = {pool.submit(self._one, ask, stop): k for k, ask in enumerate(asks)}
            try:
                for done in as_completed(waiting):
                    yield waiting[done], done.result()
            finally:
                stop.set()
                for future in waiting:
                    future.cancel()

    def _one(self, ask: Ask, stop: threading.Event) -> Reply:
        reason = "no answer"
        for attempt in range(self.settings.retries + 1):
            if stop.is_set():  # nobody waits for this one any more
                break
            try:
                response = self._client.post("chat/completions", json=self._body(ask))
            except httpx2.TimeoutException:
                reason, wait = f"no answer within {self.settings.timeout_s:g} s", None
            except httpx2.RequestError as error:
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
                        return Reply(failure=reason + refusal(response))
                    wait = retry_after(response)
            if attempt < self.settings.retries:
                self._sleep(min(self.settings.max_wait_s, pause(attempt, wait)))
        return Reply(failure=f"{reason}, {self.settings.retries + 1} attempts", outage=True)

    def _body(self, ask: Ask) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": [{"role": m.role, "content": m.content} for m in ask.messages],
            self.settings.limit_field: ask.max_tokens,
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


def refusal(response: httpx2.Response) -> str:
    """Return what kind of refusal the body names: a fixed word, never its free text.

    The text may quote the request or the key, and differs from row to row.
    """
    if re.search(
        r"context.{0,40}(length|window|size)|too long|too many tokens", response.text, re.I
    ):
        return ": too long for the endpoint"
    try:
        error = response.json()["error"]
        kind = str(error.get("code") or error.get("type") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
    return f": {kind}" if re.fullmatch(r"[a-z_]{3,40}", kind) else ""


def read_reply(response: httpx2.Response) -> Reply | None:
    """Read a chat completion; None where the body is not one."""
    try:
        choice = response.json()["choices"][0]
        text = choice["message"].get("content") or ""
        content = (choice.get("logprobs") or {}).get("content") or []
        listed = (content[0].get("top_logprobs") or [content[0]]) if content else []
        pairs = [(str(a["token"]), float(a["logprob"])) for a in listed]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    if not isinstance(text, str):
        return None
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        return Reply(failure="refused by the endpoint's content filter")
    first = dict(reversed(pairs)) if pairs else None  # a token listed twice counts as listed first
    return Reply(text, reason == "length", first)


def _check_url(text: str) -> None:
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL as error:
        raise SpecError(f"base_url={text!r}: {error}") from error
    if url.userinfo:
        raise SpecError("base_url: no user or password in it; a key comes from the environment")
    if url.scheme not in ("http", "https") or not url.host:
        raise SpecError(f"base_url={text!r}: expected http://… or https://…")
