"""Where an endpoint is and how it may be used."""

from __future__ import annotations

import os
from urllib.parse import SplitResult, urlsplit

from pydantic import Field

from palate.errors import SpecError, UsageError
from palate.records import Record


class HttpSettings(Record):
    """Where an endpoint is and how it may be used; the key comes from the environment.

    Only `model` and `base_url` say what is asked; the rest says how, and changes no number.
    """

    model: str
    base_url: str
    key_env: str = "PALATE_API_KEY"
    concurrency: int = Field(default=8, ge=1)
    timeout_s: float = 120.0
    """Seconds for one request, from sending it to the last byte of the reply."""
    retries: int = Field(default=5, ge=0)
    max_wait_s: float = 600.0
    """The longest `Retry-After` that is waited for."""
    rpm: int | None = Field(default=None, ge=1)
    tpm: int | None = Field(default=None, ge=1)
    price_in: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    price_out: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """USD per million tokens read and written."""
    cache: str | None = None
    """Folder of earlier replies."""

    @property
    def root(self) -> str:
        """The base URL, ending in a slash."""
        return self.base_url.rstrip("/") + "/"


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
