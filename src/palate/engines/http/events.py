"""A reply that comes as a stream of events, put together to what it would be in one piece."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from palate.engines.http.replies import ending_of
from palate.engines.http.transport import HttpResponse, TransportFailure, body_of

WAYS = (b',"stream":true,"stream_options":{"include_usage":true}}', b',"stream":true}')
"""How a request ends that asks for a stream with its usage, or for a stream."""
IN_ONE_PIECE = len(WAYS)
"""Asked without either."""
REFUSED = {400, 405, 406, 415, 422, 501}
NO_STREAM = re.compile(rb"\bstream", re.IGNORECASE)
DONE = "[DONE]"


class NoStream(Exception):
    """The server refuses to stream, or to stream in this way."""


def streamed_body(body: bytes, way: int) -> bytes:
    """Return the body that asks for the same reply in one of the `WAYS`."""
    return body[:-1] + WAYS[way]


def whole_reply(answer: HttpResponse) -> HttpResponse:
    """Return the answer to a streamed request as if it had been asked for in one piece.

    Raises `NoStream` where the server refuses the stream, and `TransportFailure` where the stream
    broke off: before [DONE], which some servers never send, or the end of every choice. An error
    within the stream becomes the reply, as a server sends it in one piece.
    """
    if answer.status in REFUSED and NO_STREAM.search(answer.body):
        raise NoStream
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
