"""Refusals of servers: fixed words for what is kept, their own words for the screen."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

REFUSED = {401: "the key was refused", 403: "access was refused", 404: "no such path or model"}
RETRIED = {408, 409, 425, 429, 500, 502, 503, 504}
TOO_MUCH = {429, 503}
NO_CREDIT = 402
SPENT = {
    *("insufficient_quota", "insufficient_user_quota", "exceeded_current_quota_error"),
    *("billing_hard_limit_reached", "billing_not_active", "billing_error", "payment_required"),
    *("insufficient_balance", "insufficient_credits", "arrearage"),
    *("1113", "1304", "1308", "1309", "1310"),  # Zhipu's
}
"""Codes of an account that may spend no more: waiting helps no request."""
NO_MORE = re.compile(
    r"PerDay|free-models-per-day|daily (quota|limit)|insufficient balance|余额不足", re.IGNORECASE
)
"""Words of such an account where no code tells; quotas by the minute are none."""
NO_MODEL = re.compile(
    r"model\b.{0,80}\bnot (exist|found)|not a valid model|(invalid|unknown)[ _]model", re.IGNORECASE
)
OF_ONE_REQUEST = {
    *("context_length_exceeded", "string_above_max_length", "invalid_prompt"),
    *("content_filter", "content_policy_violation"),
}
"""Codes that speak of one request's text, and say nothing of the others."""
TOO_LARGE, TOO_MANY = 413, 429
FIELDS = (
    *("temperature", "max_completion_tokens", "max_tokens", "top_logprobs", "logprobs"),
    *("top_p", "seed", "n", "reasoning_effort", "reasoning", "thinking", "response_format"),
)
"""Fields of our requests, by which a server may name what it refuses."""
NAMED = re.compile(
    r"(?:^|['\"`.\[]|->\s*|\b(?:(?:parameter|param|field|argument|input|key)s?:?|supports?)\s+)"
    rf"({'|'.join(FIELDS)})(?![\w-])|\b(max_completion_tokens|max_tokens|top_logprobs|top_p)\b",
    re.IGNORECASE,
)
TOO_LONG = re.compile(
    r"context.{0,40}(length|window|size)|too long|too many tokens|must have less than \d+ tokens",
    re.IGNORECASE,
)
LONGEST_WORDS, LONGEST_LIST = 240, 8
FIRST = 8
"""So many requests refused for one reason, and none that went well, end the command."""
ANOTHER_WAY = {"top_logprobs", "logprobs", "n"}
ANOTHER_WAY |= {"reasoning_effort", "reasoning", "thinking", "response_format"}
"""Fields without which a request that was refused is tried again."""
REMEDIES = {
    **dict.fromkeys(("temperature", "top_p"), "?temperature=none sends none"),
    "max_tokens": "?limit_field=max_completion_tokens calls the limit so",
    "max_completion_tokens": "?limit_field=max_tokens calls the limit so",
    **dict.fromkeys(("top_logprobs", "logprobs"), "use verdict=text"),
}
"""By the field that is refused, the option that helps."""


class Refusal(NamedTuple):
    """Why a server refused a request."""

    reason: str
    """Fixed words, never free text: that may quote the request or the key, and differs by row."""
    spent: str = ""
    """The code by which an account may spend no more; "" where it is another refusal."""
    no_model: bool = False
    """Whether the server says that it lacks the model."""
    field: str = ""
    """The request's field that is refused; "" where none is named."""
    words: str = ""
    """What the server says, on one line and cut: for the screen, never for a file."""
    of_one_request: bool = False
    """Whether it speaks of this request's text alone."""

    @property
    def remedy(self) -> str:
        """The option that helps, behind a semicolon; "" where none does."""
        return f"; {REMEDIES[self.field]}" if self.field in REMEDIES else ""


def read_refusal(status: int, body: bytes, key: str = "") -> Refusal:
    """Return what a body of this status says; the server's words without the key.

    >>> body = b'{"error": {"code": "unsupported_value", "param": "temperature"}}'
    >>> read_refusal(400, body).reason
    'HTTP 400: unsupported_value (temperature)'
    """
    text = body.decode(errors="replace")
    error = _error_of(body)
    message = _message(error) if error is not None else text if "<" not in text else ""
    words = one_line(message.replace(key, "…") if key else message)
    fields = error if isinstance(error, dict) else {}
    codes = [str(fields[key]) for key in ("code", "type", "error_type") if fields.get(key)]
    spent = next((code.lower() for code in codes if code.lower() in SPENT), "")
    if status == NO_CREDIT or (status == TOO_MANY and NO_MORE.search(text)):
        spent = spent or "no credit or quota left"
    if status == TOO_LARGE or TOO_LONG.search(text):
        reason = f"HTTP {status}: too long for the endpoint"
        return Refusal(reason, spent, words=words, of_one_request=True)
    field = str(fields.get("param")).rpartition(".")[2]
    if field not in FIELDS:
        match = NAMED.search(words)
        field = (match[1] or match[2]).lower() if match else ""
    kind = codes[0] if codes and re.fullmatch(r"[a-z_]{3,40}", codes[0]) else ""
    return Refusal(
        f"HTTP {status}" + (f": {kind}" if kind else "") + (f" ({field})" if field else ""),
        spent,
        bool(NO_MODEL.search(" ".join([*codes, words]))),
        field,
        words,
        not OF_ONE_REQUEST.isdisjoint(codes),
    )


def _error_of(body: bytes) -> Any:
    """Return the error that a body holds, a mapping or a text; None where it is none."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(parsed, list) and len(parsed) == 1:  # as Google writes it
        (parsed,) = parsed
    error = parsed.get("error") if isinstance(parsed, dict) else None
    return error if error and isinstance(error, dict | str) else parsed


def status_within(reply: Any) -> int | None:
    """Return the status of an error that came as HTTP 200; None where the reply holds none."""
    if not isinstance(reply, dict):
        return None
    error = reply.get("error") or (reply if reply.get("object") == "error" else None)
    if not error:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 502


def one_line(text: str, longest: int = LONGEST_WORDS) -> str:
    """Return a server's words without control characters, on one line, at most so long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 8 * longest]).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def models_beside(model: str, body: bytes) -> str:
    """Return what a server's list of models says of the one that was asked for.

    >>> models_beside("smoll", b'{"data": [{"id": "smol"}, {"id": "large"}]}')
    'it has smol, large'
    """
    try:
        names = [one_line(str(row["id"]), 100) for row in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        names = []
    if not names:
        return "it lists no models; most servers answer below …/v1"
    if model in names:
        return f"it does have {model}, so look at the path of base_url"
    more = len(names) - LONGEST_LIST
    return f"it has {', '.join(names[:LONGEST_LIST])}" + (f" and {more} more" if more > 0 else "")


class FirstRefusals:
    """Counts first refusals for one reason, none of a text's own, until a request goes well."""

    def __init__(self) -> None:
        self.over = False
        """Whether a request went well, or two were refused for different reasons."""
        self._reason, self._n = "", 0

    def add(self, refusal: Refusal) -> bool:
        """Take over a refusal; tell whether it is one too many."""
        if self.over or refusal.of_one_request:
            return False
        if self._n and refusal.reason != self._reason:
            self.over = True
            return False
        self._reason, self._n = refusal.reason, self._n + 1
        return self._n >= FIRST


def _message(error: Any) -> str:
    # OpenAI's `message`, FastAPI's `detail` (a text, or a list of places and messages), a text.
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return ""
    message = error.get("message") or error.get("detail") or error.get("error") or ""
    if isinstance(message, list):
        parts = [(it.get("loc"), it.get("msg", "")) for it in message if isinstance(it, dict)]
        places = [".".join(map(str, loc)) if isinstance(loc, list) else "" for loc, _ in parts]
        return "; ".join(f"{place}: {parts[k][1]}" for k, place in enumerate(places))
    return message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
