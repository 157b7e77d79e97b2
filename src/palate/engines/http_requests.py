"""Where an endpoint is, one request, how its reply is read, and what may come of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import Field

from palate.engines.http_ledger import Count, PromptCounts, usage
from palate.engines.http_refusals import Refusal, status_within
from palate.errors import EndpointError, SpecError, UsageError
from palate.records import Record
from palate.specs import Spec

T = TypeVar("T")
NOT_SENT = "written to the file of requests, not sent"
NETWORK = {
    *("key_env", "concurrency", "timeout", "retries", "rpm", "tpm", "price_in", "price_out"),
    *("limit_field", "batch"),
}
"""Options that say how an endpoint is asked, and change no number."""
SHARED = NETWORK - {"limit_field", "batch"} | {"base_url"}
"""Options that every endpoint has."""
FILE_OPTIONS = ("prompt", "body")
"""Options that name a file, whose content is part of the spec."""
FIELD_OPTIONS = {"effort", "body"}
"""Options that add fields to a chat request, and change numbers."""
NO_TEMPERATURE = "none"
"""The temperature of an endpoint that is sent none, and chooses its own."""
LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")
DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?\Z")
Doubt = tuple[PromptCounts, Count, str, bytes]
"""Of a prompt that others may show to be cut; key and body of its reply where it is not kept."""


class HttpSettings(Record):
    """Where an endpoint is and how it may be used; the key comes from the environment.

    `model`, `base_url` and `sends_temperature` say what is asked; the rest says how, and changes no
    number.
    """

    model: str
    base_url: str
    key_env: str = "PALATE_API_KEY"
    concurrency: int | None = Field(default=None, ge=1)
    """Most requests under way at once; None where that is learned from the server."""
    timeout_s: float = 120.0
    """Seconds in which no byte comes, from sending the request on."""
    retries: int = Field(default=5, ge=0)
    max_wait_s: float = 600.0
    """The longest `Retry-After` that is waited for."""
    rpm: int | None = Field(default=None, ge=1)
    tpm: int | None = Field(default=None, ge=1)
    price_in: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    price_out: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """USD per million tokens read and written."""
    limit_field: str = LIMIT_FIELDS[0]
    """How a chat endpoint calls the limit on a reply; newer ones want `max_completion_tokens`."""
    sends_temperature: bool = True
    """False where an endpoint allows its own temperature only."""

    @property
    def root(self) -> str:
        """The base URL, ending in a slash."""
        return self.base_url.rstrip("/") + "/"

    @property
    def place(self) -> str:
        """Where and which: what is noted of a model is kept by it."""
        return f"{self.root} {self.model}"

    @property
    def priced(self) -> bool:
        """Whether the endpoint has a price."""
        return self.price_in is not None or self.price_out is not None

    def cost(self, tokens_in: int, tokens_out: int) -> Decimal:
        """Return the USD of so many tokens."""
        read, written = (Decimal(str(it or 0)) / 10**6 for it in (self.price_in, self.price_out))
        return tokens_in * read + tokens_out * written


def read_endpoint(spec: Spec, model: str, options: Iterable[str], example: str) -> HttpSettings:
    """Return where an endpoint is and how it is used; raises `SpecError` naming a wrong option."""
    spec.only({*options, *SHARED})
    if "base_url" not in spec.options:
        raise SpecError(f"{spec}: an endpoint needs ?base_url={example}")
    return HttpSettings(
        model=model,
        base_url=spec.options["base_url"],
        key_env=spec.options.get("key_env", "PALATE_API_KEY"),
        concurrency=spec.number("concurrency", 0, least=1) or None,
        timeout_s=spec.number("timeout", 120, least=1),
        retries=spec.number("retries", 5),
        rpm=spec.number("rpm", 0, least=1) or None,
        tpm=spec.number("tpm", 0, least=1) or None,
        price_in=_price(spec, "price_in"),
        price_out=_price(spec, "price_out"),
        limit_field=spec.choice("limit_field", LIMIT_FIELDS, LIMIT_FIELDS[0]),
        sends_temperature=spec.options.get("temperature") != NO_TEMPERATURE,
    )


def refuse_endpoint_options(spec: Spec) -> None:
    """Raise `SpecError` for an endpoint's option on a model in this process."""
    wrong = sorted({*NETWORK, *SHARED, *FIELD_OPTIONS} & set(spec.options))
    if spec.options.get("temperature") == NO_TEMPERATURE:
        wrong.append(f"temperature={NO_TEMPERATURE}")
    if wrong:
        raise SpecError(
            f"{spec}: {wrong[0]} is an option of endpoints, as in api:MODEL?base_url=…; "
            f"{spec.reference} runs in this process"
        )


def _price(spec: Spec, name: str) -> float | None:
    value = spec.options.get(name)
    if value is not None and not DECIMAL.match(value):
        raise SpecError(f"spec {str(spec)!r}: {name}={value!r} is not a number such as 0.5")
    return None if value is None else float(value)


def canonical(spec: Spec) -> str:
    """Return a spec without the options that say how to ask, not what; its files are pinned."""
    options = {name: value for name, value in spec.options.items() if name not in NETWORK}
    options |= {name: file.pinned for name in FILE_OPTIONS if (file := spec.file(name))}
    return str(spec.model_copy(update={"options": options}))


def read_key(name: str) -> str:
    """Return a variable's key, or ""; raises `UsageError`, unquoted, where no header holds it."""
    key = os.environ.get(name, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"${name} holds characters that no key has")
    return key


def check_url(text: str) -> SplitResult:
    """Return the parts of a base URL; raises `SpecError` for what is none, or holds a password."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise SpecError(f"base_url={text!r}: {error}") from error
    if url.username is not None or url.password is not None:
        raise SpecError("base_url: no user or password in it; a key comes from the environment")
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        raise SpecError(f"base_url={text!r}: expected http://… or https://…")
    if url.query or url.fragment or not text.isprintable() or " " in text:
        raise SpecError("base_url: expected scheme, host and path only, no ?query or #fragment")
    return url


class UnusableReply(Exception):
    """A reply that was read and is of no use; asking again would give the same."""


class FailedReply(Exception):
    """A reply in which the server says, or shows, that it failed; asking again may help."""


class AllRefused(EndpointError):
    """The first requests were refused for one reason, and none went well."""

    def __init__(self, message: str, refusal: Refusal) -> None:
        super().__init__(message)
        self.refusal = refusal


class NotSent(EndpointError):
    """Requests were written to a file instead of being sent."""


def body_of(value: object) -> bytes:
    """Return a request's JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(value, separators=(",", ":")).encode()


class HttpRequest(NamedTuple, Generic[T]):
    """One request and how its reply is read."""

    path: str
    body: bytes
    read: Callable[[Any], T | None]
    """From the reply's JSON. None and `FailedReply` are no reply to this; `UnusableReply` ends the
    request."""
    tokens_out: int = 0
    """The most the reply may have."""
    used: Callable[[Any], tuple[int, int] | None] = usage
    """From the reply's JSON, the tokens read and written; None where it does not say."""
    keeps: Callable[[T], bool] = lambda _: True
    """Whether what was read may stay in the cache."""
    streams: bool = False
    """Whether the reply may be long, and is asked for as a stream where the server can."""
    number: int = 0
    """Tells apart requests that ask the same and want other replies."""

    def outcome(self, reply: Any) -> HttpOutcome[T] | Retry:
        """Return what a reply's JSON is to this request."""
        if status_within(reply) is not None:
            return Retry("")
        try:
            value = self.read(reply)
        except UnusableReply as error:
            return HttpOutcome(failure=str(error))
        except FailedReply as error:
            return Retry(str(error))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return Retry("")
        return Retry("") if value is None else HttpOutcome(value)

    def may_stay(self, outcome: HttpOutcome[T]) -> bool:
        """Tell whether a reply may be kept for good."""
        return outcome.value is not None and self.keeps(outcome.value)


class HttpOutcome(NamedTuple, Generic[T]):
    """What came of one request."""

    value: T | None = None
    failure: str | None = None
    outage: bool = False
    """The endpoint did not answer: asking again later may help, unlike after a refusal."""
    refusal: Refusal | None = None
    """What the server refused, where it did."""
    doubt: Doubt | None = None
    """Where its prompt has doubtfully few tokens: it waits for others, and is not kept before."""


class Retry(NamedTuple):
    """An attempt that may be repeated, and how long the server wants to be left alone."""

    reason: str
    rest: float | None = None
    charged: bool = True
    at_once: bool = False
    """Whether it is repeated without a wait, and is no attempt."""


def ask_groups(
    ask: Callable[[Iterator[HttpRequest[T]]], Generator[tuple[int, HttpOutcome[T]]]],
    groups: Iterable[Sequence[HttpRequest[T] | HttpOutcome[T]]],
) -> Generator[tuple[int, list[HttpOutcome[T]]]]:
    """Yield (group, outcomes in its order) as the groups become whole; an outcome is not sent."""
    places: dict[int, tuple[int, int]] = {}
    parts: dict[int, list[Any]] = {}

    def requests() -> Iterator[HttpRequest[T]]:
        position = count()
        for k, group in enumerate(groups):
            parts[k] = [it if isinstance(it, HttpOutcome) else None for it in group]
            for j, it in enumerate(group):
                if isinstance(it, HttpRequest):
                    places[next(position)] = k, j
                    yield it

    with closing(ask(requests())) as outcomes:
        for position, outcome in outcomes:
            k, j = places.pop(position)
            parts[k][j] = outcome
            if None not in parts[k]:
                yield k, parts.pop(k)
    yield from parts.items()  # groups of which nothing was sent
