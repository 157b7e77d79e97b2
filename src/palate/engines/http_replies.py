"""The one reader of what endpoints reply: closed sets of endings, parts and fields.

What is in none of them is no reply: its reason names the field, and it is never kept.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from math import exp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.engines.http_ledger import usage
from palate.engines.http_refusals import Refusal, status_within
from palate.engines.http_requests import FailedReply, UnusableReply, body_of
from palate.engines.http_transport import HttpResponse, TransportFailure
from palate.marks import OpenThought, after_thought

THOUGHTS = {"thinking", "reasoning", "redacted_thinking"}
"""Types of the parts of a message that are thoughts."""
THOUGHT_FIELDS = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
TEXTS = {"None", "text", "output_text"}
ROLES = {"none", "", "assistant", "model", "ai", "bot", "chatbot"}
OPEN = {"", "null", "none"}
"""How servers write that a reply has no end yet."""
LONG = 20
"""Characters that do not stand in two texts by chance."""
ALL, NEVER = 1.01, -9000.0
"""What listed probabilities may add up to, rounded; −9999 or −∞ is written for what cannot be."""
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
WAYS = (b',"stream":true,"stream_options":{"include_usage":true}}', b',"stream":true}')
"""How a request ends that asks for a stream with its usage, or for a stream."""
IN_ONE_PIECE = len(WAYS)
"""Asked without either."""
REFUSED = {400, 405, 406, 415, 422, 501}
NO_STREAM = re.compile(rb"\bstream", re.IGNORECASE)
DONE = "[DONE]"


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
    """Read at most `most` choices of up to `limit` tokens; raises `FailedReply` if all failed."""
    choices = choices_of(completion)
    full = limit > 0 and _writes(completion, limit * len(choices))
    replies = _apart([_reply(choice, full) for choice in choices])[:most]
    _refuse(all(reply.outage for reply in replies), str(replies[0].failure), FailedReply)
    return replies


def shows_thought(completion: Any) -> bool:
    """Tell whether a completion holds a thought, or counts the tokens of one."""
    details = (completion.get("usage") or {}).get("completion_tokens_details")
    counted = isinstance(details, dict) and bool(details.get("reasoning_tokens"))
    return counted or any(_with_thought(it.get("message")) for it in choices_of(completion))


def _with_thought(message: Any) -> bool:
    try:
        text, thought = _parts(message.get("content"))
        return thought or _thinks(message) or after_thought(text) != text.strip()
    except OpenThought:
        return True
    except (UnusableReply, AttributeError):  # no message, or none of a text
        return False


def _apart(replies: list[Reply]) -> list[Reply]:
    # Gateways that join choices for their logs have written the joined text into one of them.
    for k, reply in enumerate(replies):
        others = "".join(other.text for other in replies[:k] + replies[k + 1 :])
        holds = others in reply.text
        if len(replies) == 2:  # of which one may be the other, or begin with it
            holds = k == 0 and reply.text != others and reply.text.endswith(others)
        if len(others) >= LONG and holds:
            replies[k] = Reply(failure="the choice holds the texts of the others", outage=True)
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
        broken = "\ufffd" in (text[:-1] if full else text)
        _refuse(broken, "a character of the reply came in halves (U+FFFD)", FailedReply)
        return Reply(text, full, _first_token(choice, text))
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


def _first_token(choice: Any, text: str) -> dict[str, float] | None:
    # A token listed twice counts as listed first; one without a number is not listed.
    content = (choice.get("logprobs") or {}).get("content") or []
    if content:
        _refuse(_thinks(choice["message"]), "the log-probabilities begin within a thought")
        first, begun = (str(it).strip(" \n▁ĠĊ") for it in (content[0].get("token"), text))
        other = first and begun and not begun.startswith(first) and not first.startswith(begun)
        _refuse(other, "the log-probabilities are of another text than the reply's")
    listed = (content[0].get("top_logprobs") or [content[0]]) if content else []
    pairs = [(str(a["token"]), float(a["logprob"])) for a in listed if a["logprob"] is not None]
    first_listed = dict(reversed(pairs))
    possible = [logp for logp in first_listed.values() if logp > NEVER]
    more = sum(exp(min(logp, 1)) for logp in possible) > ALL
    _refuse(more, "the log-probabilities are none: listed tokens have more than all probability")
    alone = possible == [0.0] and len(listed) > 1
    _refuse(alone, "the first token has all of the probability, as behind a sampler (top_p, top_k)")
    return first_listed or None


def _text(message: Any, ending: str, cut_off: bool) -> str:
    if not isinstance(message, dict):
        raise UnusableReply("the reply's message is no object")
    role = _name(message.get("role"))
    _refuse(role.lower() not in ROLES, f"the reply is not the model's (role {role})")
    _refuse(message.get("refusal"), "refused by the model (refusal)")
    text, thought = _parts(message.get("content"))
    thought |= _thinks(message)
    if not text.strip() and not cut_off:
        _refuse(thought, "only a thought came back")
        called = message.get("tool_calls") or message.get("function_call")
        called = called or ending in CALLS.split()
        _refuse(called, "the reply calls a tool and has no text (tool_calls)")
        _refuse("content" not in message, "the reply's message has no content")
    return text


def _thinks(message: Mapping[str, Any]) -> bool:
    return any(message.get(name) for name in THOUGHT_FIELDS)


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


def read_vectors(reply: Any, count: int | None = None) -> list[NDArray[np.float32] | str]:
    """Read embeddings in order, or why one is none; raises `FailedReply` for no list of so many."""
    data = reply.get("data") if isinstance(reply, dict) else None
    if not (isinstance(data, list) and data and all(isinstance(row, dict) for row in data)):
        raise FailedReply("the reply has no data")
    rows = {row.get("index"): row for row in data if type(row.get("index")) is int}
    expected = range(len(data) if count is None else count)
    if len(data) != len(expected) or rows.keys() != set(expected):
        raise FailedReply(f"the reply's index does not number {len(expected)} embeddings")
    return [_vector(rows[k].get("embedding")) for k in expected]


def _vector(values: Any) -> NDArray[np.float32] | str:
    if not (isinstance(values, list) and values):
        encoded = " but a text, as in base64" * (isinstance(values, str) and values != "")
        return f"embedding is no list of numbers{encoded}"
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


class NoStream(Exception):
    """The server refuses to stream in this way, or repeats itself in a stream."""

    def __init__(self, *, answered: bool) -> None:
        super().__init__("no stream")
        self.answered = answered


def whole_reply(answer: HttpResponse) -> HttpResponse:
    """Return the answer to a streamed request as if it had been asked for in one piece.

    Raises `NoStream` where the server refuses the stream or repeats in it what came before, and
    `TransportFailure` where it broke off: before [DONE], which some servers never send, or the end
    of every choice. An error within the stream becomes the reply, as it would in one piece.
    """
    if answer.status in REFUSED and NO_STREAM.search(answer.body):
        raise NoStream(answered=False)
    if answer.status != 200 or not is_stream(answer):
        return answer
    try:
        events = list(_events(answer.body))
        parsed = [json.loads(event) for event in events if event.strip() not in ("", DONE)]
        error = next((e for e in parsed if e.get("error") and not e.get("choices")), None)
        completion = _completion(parsed) if error is None else {"error": error["error"]}
        ends = [ending_of(choice["finish_reason"]) for choice in completion.get("choices", [])]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as broken:
        raise TransportFailure("a stream that cannot be read") from broken
    if error is None and DONE not in events and (None in ends or not ends):
        raise TransportFailure("the stream broke off")
    if _repeats(parsed):
        raise NoStream(answered=True)
    return answer._replace(body=body_of(completion))


def is_stream(answer: HttpResponse) -> bool:
    """Tell a stream of events from a reply in one piece."""
    kind = str(answer.headers.get("Content-Type", "")).lower()
    return kind.startswith("text/event-stream") or answer.body.startswith((b"data:", b"event:"))


def _events(body: bytes) -> Iterator[str]:
    """Yield the data of each event; comments, names and numbers of events are left out."""
    for event in re.sub("\r\n?", "\n", body.decode()).split("\n\n"):
        lines = [line for line in event.split("\n") if line.startswith("data:")]
        if lines:
            yield "\n".join(line[5:].removeprefix(" ") for line in lines)


def _completion(chunks: list[Any]) -> dict[str, Any]:
    """Return the completion whose chunks these are."""
    completion: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        for name, value in chunk.items():
            if name not in ("choices", "object") and value is not None:
                completion[name] = value
        for part in chunk.get("choices") or ():
            at = int(part.get("index") or 0)
            choice = choices.setdefault(
                at, {"index": at, "message": {"content": None}, "finish_reason": None}
            )
            for name, value in (part.get("delta") or {}).items():
                _append(choice["message"], name, value)
            for name, value in (part.get("logprobs") or {}).items():
                _append(choice.setdefault("logprobs", {}), name, value)
            for name in part.keys() - {"index", "delta", "logprobs"}:
                if ending_of(part[name]) if name == "finish_reason" else part[name] is not None:
                    choice[name] = part[name]
    completion["object"] = "chat.completion"
    completion["choices"] = [choices[at] for at in sorted(choices)]
    return completion


def _repeats(chunks: list[Any]) -> bool:
    """Tell whether pieces, or the last one, repeat the text, or a choice goes on behind its end."""
    texts: dict[Any, list[str]] = defaultdict(list)
    ended = set()
    for part in (part for chunk in chunks for part in chunk.get("choices") or ()):
        text, index = (part.get("delta") or {}).get("content"), part.get("index")
        ends = ending_of(part.get("finish_reason")) is not None
        if index in ended and (text or ends):
            return True
        ended.update([index] if ends else [])
        if isinstance(text, str) and text:
            texts[index].append(text)
    for *before, last in texts.values():
        grows = (
            all(b.startswith(a) for a, b in pairwise([*before, last])) and last not in before[:1]
        )
        shown = len(before) > 1 or len("".join(before)) >= LONG
        if before and shown and (grows or (len(last) >= LONG and last == "".join(before))):
            return True
    return False


def _append(message: dict[str, Any], name: str, value: Any) -> None:
    """Add a piece of text, or of a list of parts, to what came before; the rest is replaced."""
    pieces = [message.get(name), value]
    if value is None:
        message.setdefault(name, None)
    elif name == "role" or not all(isinstance(it, list | str) for it in pieces):
        message[name] = value
    elif all(isinstance(it, str) for it in pieces):
        message[name] = "".join(pieces)
    else:
        texts = [
            [{"type": "text", "text": it}] if isinstance(it, str) else it for it in pieces if it
        ]
        message[name] = list(chain.from_iterable(texts))
