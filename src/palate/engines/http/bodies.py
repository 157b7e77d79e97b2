"""JSON there and back: what is sent, what a refusal says, what was used."""

from __future__ import annotations

import json
import re
from typing import Any

TOO_LONG = re.compile(
    r"context.{0,40}(length|window|size)|too long|too many tokens|must have less than \d+ tokens",
    re.IGNORECASE,
)


def body_of(value: object) -> bytes:
    """Return a request's JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(value, separators=(",", ":")).encode()


def refusal(body: bytes) -> str:
    """Return what kind of refusal a body names: a fixed word, never its free text.

    The text may quote the request or the key, and differs from row to row.
    """
    text = body.decode(errors="replace")
    if TOO_LONG.search(text):
        return ": too long for the endpoint"
    try:
        error = json.loads(text)
        error = error["error"] if isinstance(error.get("error"), dict) else error
        kind = str(error.get("code") or error.get("type") or error.get("error_type") or "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    return f": {kind}" if re.fullmatch(r"[a-z_]{3,40}", kind) else ""


def usage(said: Any) -> tuple[int, int] | None:
    """Return the tokens read and written, as OpenAI's API says them."""
    try:
        used = said["usage"]
        found = int(used["prompt_tokens"]), int(used.get("completion_tokens") or 0)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    return found if min(found) >= 0 else None
