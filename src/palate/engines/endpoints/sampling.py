"""n replies to one prompt from a chat endpoint, however many it gives at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

from palate.engines.endpoints.chat import (
    LONG_REPLY,
    ChatEndpoint,
    Reply,
    failed,
    is_whole,
    read_choice,
)
from palate.engines.http import AllRefused, FailedReply, HttpRequest, body_of
from palate.records import Message
from palate.seeding import digest

MOST_AT_ONCE = 128
"""Replies asked for in one request."""


class Sampling(NamedTuple):
    """How a token is drawn, and how many at most."""

    max_tokens: int
    temperature: float
    top_p: float
    seed: int


class SamplingRequest(NamedTuple):
    """One prompt, and which of its replies are wanted."""

    messages: tuple[Message, ...]
    numbers: tuple[int, ...]
    how: Sampling


class SamplingEndpoint(ChatEndpoint):
    """Asks until every reply that is wanted is there.

    A request asks for as many replies as are wanted (`n`). Servers that know no `n` send one, or
    refuse: what is missing is then asked for one by one, each with a seed of its own, so that
    neither a server nor a cache gives the same reply again because it was asked the same.
    """

    def draw(self, draws: Sequence[SamplingRequest]) -> Iterator[tuple[int, int, Reply]]:
        """Yield (position, number of the reply, reply) as they come, each once.

        Raises `EndpointError` where going on is pointless, as `HttpClient.ask` does.
        """
        missing: dict[int, list[int]] = {k: list(one.numbers) for k, one in enumerate(draws)}
        try:
            yield from self._round(draws, missing, alone=False)
        except AllRefused as error:
            if error.refusal.field not in ("n", "") or max(map(len, missing.values())) == 1:
                raise  # it is not for their number
        if missing:
            yield from self._round(draws, missing, alone=True)

    def _round(
        self, draws: Sequence[SamplingRequest], missing: dict[int, list[int]], *, alone: bool
    ) -> Iterator[tuple[int, int, Reply]]:
        # Takes out of `missing` what it yields.
        requests = [
            (k, some)
            for k, numbers in missing.items()
            for some in ([[one] for one in numbers] if alone else _cut(numbers))
        ]
        posts = (self._sampling_post(draws[k], some) for k, some in requests)
        with closing(self.client.ask(posts)) as outcomes:
            for at, outcome in outcomes:
                k, wanted = requests[at]
                replies = outcome.value
                if replies is None:
                    if len(wanted) > 1 and not outcome.outage:
                        continue  # perhaps `n` is refused: each will be asked for alone
                    replies = (failed(outcome),) * len(wanted)
                for number, reply in zip(wanted, replies, strict=False):
                    if reply.outage and outcome.value is not None:
                        continue  # one of several in which the server failed
                    yield k, number, reply
                    missing[k].remove(number)
                if not missing[k]:
                    del missing[k]

    def _sampling_post(
        self, draw: SamplingRequest, numbers: list[int]
    ) -> HttpRequest[tuple[Reply, ...]]:
        body = self._body(draw.messages, draw.how.max_tokens)
        seed = digest("sample", draw.how.seed, body["messages"], numbers[0])
        if self.settings.sends_temperature:
            body |= {"temperature": draw.how.temperature, "top_p": draw.how.top_p}
        body["seed"] = int(seed[:7], 16)
        if len(numbers) > 1:
            body["n"] = len(numbers)
        read = partial(read_choices, most=len(numbers))
        return HttpRequest(
            "chat/completions",
            body_of(body),
            read,
            draw.how.max_tokens * len(numbers),
            keeps=are_whole,
            streams=draw.how.max_tokens >= LONG_REPLY,
        )


def read_choices(completion: Any, most: int) -> tuple[Reply, ...] | None:
    """Read a completion's choices, at most so many; None where there is none.

    Raises `FailedReply` where the server failed in all of them.
    """
    replies = tuple(map(read_choice, completion["choices"][:most]))
    if replies and all(reply.outage for reply in replies):
        raise FailedReply(replies[0].failure)
    return replies or None


def are_whole(replies: tuple[Reply, ...]) -> bool:
    """Tell whether replies may be kept: not where one of them failed."""
    return all(map(is_whole, replies))


def _cut(numbers: list[int]) -> Iterator[list[int]]:
    for first in range(0, len(numbers), MOST_AT_ONCE):
        yield numbers[first : first + MOST_AT_ONCE]
