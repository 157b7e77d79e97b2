"""Clients of a reward server: each posts one answer, waits for its reply, then posts the next."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import aiohttp

PATIENCE = 300.0
"""Seconds after which a reply is lost: a large model may have much to score before."""
PAUSE = 0.05
"""Seconds that a client waits after a failure: a server that is gone would keep it spinning."""
HEADERS = {"Content-Type": "application/json"}
Failure = Literal["error", "lost"]


class PostedAnswer(NamedTuple):
    """One answer: what a client sends."""

    number: int
    body: bytes


class AnswerReply(NamedTuple):
    """What came of one answer."""

    number: int
    """Of the answer that was asked for."""
    value: float | None
    seconds: float
    failure: Failure | None = None
    """error: refused, or a reply without a number; lost: no reply came."""


@dataclass(frozen=True)
class Replies:
    """All that came within a while."""

    replies: Sequence[AnswerReply]
    seconds: float
    """From the first request to the last reply."""


async def ask(
    url: str,
    answers: Iterator[PostedAnswer],
    clients: int,
    seconds: float,
    patience: float = PATIENCE,
) -> Replies:
    """Let clients post answers to `URL/score`, and wait for the last replies at the end.

    Nobody begins a request after `seconds`. All clients share one thread.
    """
    replies: list[AnswerReply] = []
    async with _session(patience) as session:
        started = time.perf_counter()

        async def client() -> None:
            for answer in answers:
                begun = time.perf_counter()
                value, failure = await _post(session, f"{url}/score", answer.body)
                ended = time.perf_counter()
                replies.append(AnswerReply(answer.number, value, ended - begun, failure))
                if failure is not None:
                    await asyncio.sleep(PAUSE)
                if ended - started >= seconds:
                    return

        await asyncio.gather(*(client() for _ in range(clients)))
        return Replies(replies, time.perf_counter() - started)


async def read_text(url: str) -> tuple[int, str]:
    """Return the status and the text of a page; status 0 where nobody listens."""
    try:
        async with _session(PATIENCE) as session, session.get(url) as reply:
            return reply.status, await reply.text()
    except aiohttp.ClientConnectionError:
        return 0, ""


def _session(patience: float) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=patience),
    )


async def _post(
    session: aiohttp.ClientSession, url: str, body: bytes
) -> tuple[float | None, Failure | None]:
    try:
        async with session.post(url, data=body, headers=HEADERS) as reply:
            text = await reply.read()
            return _read(text) if reply.status == 200 else (None, "error")
    except aiohttp.ClientConnectorError:
        return None, "error"  # nothing was asked
    except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError):
        return None, "lost"
    except aiohttp.ClientError:
        return None, "error"


def _read(text: bytes) -> tuple[float | None, Failure | None]:
    """Return the one score in a reply.

    >>> _read(b'{"items": [{"scores": [0.5], "reasons": [null]}]}')
    (0.5, None)
    >>> _read(b'{"items": [{"scores": [null], "reasons": ["empty answer"]}]}')
    (None, 'error')
    """
    try:
        ((value,),) = (item["scores"] for item in json.loads(text)["items"])
    except (ValueError, KeyError, TypeError):
        return None, "error"
    return (float(value), None) if isinstance(value, int | float) else (None, "error")
