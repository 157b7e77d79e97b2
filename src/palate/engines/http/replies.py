"""The one reader of what endpoints reply: closed sets of endings, parts and fields.

What is in none of them is no reply: its reason names the field, and it is never kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.engines.http.refusals import Refusal, status_within
from palate.engines.http.request import FailedReply, UnusableReply
from palate.engines.http.transport import usage

THOUGHTS = {"thinking", "reasoning", "redacted_thinking"}
"""Types of the parts of a message that are thoughts."""
THOUGHT_FIELDS = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
TEXTS = {"None", "text", "output_text"}
ROLES = {"none", "", "assistant", "model", "ai", "bot", "chatbot"}
OPEN = {"", "null", "none"}
"""How servers write that a reply has no end yet."""
CALLS = "tool_calls tool_call tool_use function_call"
ENDINGS = {
    "whole": f"stop end_turn eos eos_token endoftext stop_sequence complete {CALLS}",
    "cut": "length max_tokens max_output_tokens model_length token_limit "
    "model_context_window_exceeded",
    "failed": "error error_limit abort aborted cancelled canceled user_cancel timeout time_limit "
    "network_error insufficient_system_resource",
    "filtered": "content_filter content_filtered safety image_safety recitation blocklist spii "
    "prohibited_content language sensitive refusal guardrail_intervened error_toxic",
}
KINDS: dict[str | None, str] = {
    ending: kind for kind, endings in ENDINGS.items() for ending in endings.split()
}
"""What an ending says of a reply; of any other nothing is known."""


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


def ending_of(value: Any) -> str | None:
    """Return a `finish_reason` in lower case; None where the reply has not ended.

    >>> ending_of("MAX_TOKENS"), ending_of("")
    ('max_tokens', None)
    """
    name = _name(value).lower()
    return None if name in OPEN else name


def choices_of(completion: Any) -> list[dict[str, Any]]:
    """Return a completion's choices; raises `FailedReply` where there are none."""
    choices = completion.get("choices") if isinstance(completion, dict) else None
    if not (isinstance(choices, list) and choices and all(isinstance(c, dict) for c in choices)):
        raise FailedReply("the reply has no choices")
    return choices


def first_choice(completion: Any) -> dict[str, Any]:
    """Return the first choice; raises `FailedReply` where the server failed in it."""
    choice = choices_of(completion)[0]
    ending = ending_of(choice.get("finish_reason"))
    failed = choice.get("error") or KINDS.get(ending) == "failed"
    _refuse(failed, "the server failed within its reply", FailedReply)
    return choice


def read_completion(completion: Any, most: int | None = None, limit: int = 0) -> list[Reply]:
    """Read a chat completion's choices, at most so many, each of which might have `limit` tokens.

    Raises `FailedReply` where the server failed in all of them.
    """
    choices = choices_of(completion)
    full = limit > 0 and _writes(completion, limit * len(choices))
    replies = [_reply(choice, full) for choice in choices[:most]]
    _refuse(all(reply.outage for reply in replies), str(replies[0].failure), FailedReply)
    return replies


def _writes(completion: Mapping[str, Any], tokens: int) -> bool:
    # Some servers' limit is on the answer alone, and their count holds the thought too.
    written = (usage(completion) or (0, 0))[1]
    details = completion["usage"].get("completion_tokens_details") if written else None
    thought = details.get("reasoning_tokens") if isinstance(details, dict) else 0
    return tokens in (written, written - (thought if isinstance(thought, int) else 0))


def _reply(choice: dict[str, Any], full: bool) -> Reply:
    try:
        ending = _ending(choice)
        text = _text(choice.get("message"), ending, full := full or KINDS[ending] == "cut")
        return Reply(text, full, _first_token(choice))
    except (UnusableReply, FailedReply) as error:
        return Reply(failure=str(error), outage=isinstance(error, FailedReply))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Reply(failure="the reply's logprobs cannot be read", outage=True)


def _ending(choice: dict[str, Any]) -> str:
    _refuse(choice.get("error"), "the server failed within its reply (error)", FailedReply)
    _refuse("finish_reason" not in choice, "the reply has no finish_reason")
    ending, native = map(ending_of, (choice["finish_reason"], choice.get("native_finish_reason")))
    if ending is None:
        raise FailedReply("the reply broke off: its finish_reason is empty")
    kind = "filtered" if ending.startswith("content_filter:") else KINDS.get(ending)
    if native is not None and kind == "whole" != KINDS.get(native, kind):
        ending, kind = native, KINDS[native]  # a gateway hides what its server says
    named = f"(finish_reason {ending})"
    _refuse(kind == "failed", f"the server failed within its reply {named}", FailedReply)
    _refuse(kind == "filtered", f"refused by the endpoint's content filter {named}")
    _refuse(kind is None, f"the reply ended in an unknown way {named}")
    return ending


def _first_token(choice: Any) -> dict[str, float] | None:
    # A token listed twice counts as listed first; one without a number is not listed.
    content = (choice.get("logprobs") or {}).get("content") or []
    listed = (content[0].get("top_logprobs") or [content[0]]) if content else []
    pairs = [(str(a["token"]), float(a["logprob"])) for a in listed if a["logprob"] is not None]
    return dict(reversed(pairs)) or None


def _text(message: Any, ending: str, cut_off: bool) -> str:
    if not isinstance(message, dict):
        raise UnusableReply("the reply's message is no object")
    role = _name(message.get("role"))
    _refuse(role.lower() not in ROLES, f"the reply is not the model's (role {role})")
    _refuse(message.get("refusal"), "refused by the model (refusal)")
    text, thought = _parts(message.get("content"))
    thought |= any(message.get(name) for name in THOUGHT_FIELDS)
    if not text.strip() and not cut_off:
        _refuse(thought, "only a thought came back")
        called = message.get("tool_calls") or message.get("function_call")
        called = called or ending in CALLS.split()
        _refuse(called, "the reply calls a tool and has no text (tool_calls)")
        _refuse("content" not in message, "the reply's message has no content")
    return text


def _parts(content: Any) -> tuple[str, bool]:
    # A text, or a list of parts, of which some are thoughts; the second tells whether any is.
    if content is None or isinstance(content, str):
        return content or "", False
    _refuse(not isinstance(content, list), "the reply's content is no text")
    parts = [part if isinstance(part, dict) else {"text": part} for part in content]
    kinds = [_name(part.get("type")) for part in parts]
    _refuse("refusal" in kinds, "refused by the model (refusal)")
    other = next((kind for kind in kinds if kind not in TEXTS | THOUGHTS), None)
    _refuse(other, f"a part of the reply's content is no text (type {other})")
    texts = [part.get("text") for part, kind in zip(parts, kinds, strict=True) if kind in TEXTS]
    _refuse(not all(isinstance(it, str) for it in texts), "a part of the reply's content is empty")
    return "".join(map(str, texts)), not THOUGHTS.isdisjoint(kinds)


def read_vectors(said: Any, count: int | None = None) -> list[NDArray[np.float32] | str]:
    """Read embeddings in their order; in place of a vector the reason there is none.

    Raises `FailedReply` where it is no list of so many.
    """
    data = said.get("data") if isinstance(said, dict) else None
    if not (isinstance(data, list) and data and all(isinstance(row, dict) for row in data)):
        raise FailedReply("the reply has no data")
    rows = {row.get("index"): row for row in data if type(row.get("index")) is int}
    expected = range(len(data) if count is None else count)
    if len(data) != len(expected) or rows.keys() != set(expected):
        raise FailedReply(f"the reply's index does not number {len(expected)} embeddings")
    return [_vector(rows[k].get("embedding")) for k in expected]


def _vector(values: Any) -> NDArray[np.float32] | str:
    if not (isinstance(values, list) and values):
        return "embedding is no list of numbers"
    if any(type(value) not in (int, float) for value in values):
        return "embedding holds what is no number"
    most = float(np.finfo(np.float32).max)
    if not all(-most <= value <= most for value in values):
        return "embedding holds what is not finite"
    vector = np.array(values, np.float32)
    return vector if vector.any() else "embedding is all zeros"


def why_not_kept(body: Any) -> str | None:
    """Return why a completion or embeddings in a file are no reply; None where they are one."""
    if not (isinstance(body, dict) and body and status_within(body) is None):
        return "HTTP 200 without a reply"
    try:
        if "data" in body and "choices" not in body:
            return next((it for it in read_vectors(body) if isinstance(it, str)), None)
        return next((it.failure for it in read_completion(body) if it.failure), None)
    except FailedReply as error:
        return str(error)


def _refuse(bad: Any, reason: str, error: type[Exception] = UnusableReply) -> None:
    if bad:
        raise error(reason)


def _name(value: Any) -> str:
    """Return a value of a closed set as a reason may show it: never a text of any length."""
    if value is None or (isinstance(value, str) and re.fullmatch(r"[\w .:-]{0,40}", value)):
        return str(value).strip()
    return "of another form" if isinstance(value, str) else f"a {type(value).__name__}"
