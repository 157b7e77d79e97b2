"""Where an endpoint is and how it may be used: the record, and the options of a spec behind it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pydantic import Field

from palate.errors import SpecError, UsageError
from palate.records import Record
from palate.specs import Spec

NETWORK = {
    *("key_env", "concurrency", "timeout", "retries", "rpm", "tpm", "price_in", "price_out"),
    *("limit_field", "batch"),
}
"""Options that say how an endpoint is asked, and change no number."""
SHARED = NETWORK - {"limit_field", "batch"} | {"base_url"}
"""Options that every endpoint has."""
NO_TEMPERATURE = "none"
"""The temperature of an endpoint that is sent none, and chooses its own."""
LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")
DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?\Z")


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


def place_of(details: Mapping[str, Any]) -> str | None:
    """Return the place of what a scorer's details say it asks; None where it asks nobody."""
    base_url, model = details.get("base_url"), details.get("model")
    if base_url is None or model is None:
        return None
    return HttpSettings(base_url=base_url, model=model).place


def read_endpoint(spec: Spec, model: str, options: Iterable[str], example: str) -> HttpSettings:
    """Return where a spec's endpoint is and how it may be used.

    `options` are those that its kind has beside the endpoint's own. Raises `SpecError` naming the
    option that is missing, unknown or wrong.
    """
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
    wrong = sorted({*NETWORK, *SHARED} & set(spec.options))
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
    """Return a spec without the options that say how to ask, not what."""
    asked = {name: value for name, value in spec.options.items() if name not in NETWORK}
    return str(spec.model_copy(update={"options": asked}))


def read_key(name: str) -> str:
    """Return the key in this environment variable, or "" if there is none.

    Raises `UsageError`, without quoting it, for one that no header can hold.
    """
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
