"""n replies to one prompt from a chat endpoint, however many it gives at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

from palate.engines.endpoints.chat import ChatEndpoint, Reply
from palate.engines.http import Outcome, Post, body_of
from palate.records import Message
from palate.seeding import digest

MOST_AT_ONCE = 128
"""Replies asked for in one request."""


class Draw(NamedTuple):
    """One prompt, and which of its replies are wanted."""

    messages: tuple[Message, ...]
    numbers: tuple[int, ...]
    max_tokens: int
    temperature: float
    top_p: float
    seed: int


class SamplingEndpoint(ChatEndpoint):
    """Asks until every reply that is wanted is there.

    A request asks for as many replies as are wanted (`n`). Servers that know no `n` send one, or
    refuse: what is missing is then asked for one by one, each with a seed of its own, so that
    neither a server nor a cache gives the same reply again because it was asked the same.
    """

    def draw(self, draws: Sequence[Draw]) -> Iterator[tuple[int, int, Reply]]:
        """Yield (position, number of the reply, reply) as they come, each once.

        Raises `EndpointError` where going on is pointless: the key or the model is refused.
        """
        missing: dict[int, list[int]] = {k: list(one.numbers) for k, one in enumerate(draws)}
        alone = False
        while missing:
            asked = [
                (k, some)
                for k, numbers in missing.items()
                for some in ([[one] for one in numbers] if alone else _cut(numbers))
            ]
            for at, outcome in self._outcomes([(draws[k], some) for k, some in asked]):
                k, wanted = asked[at]
                came = list(outcome.value or ())[: len(wanted)]
                if not came and len(wanted) > 1 and not outcome.outage:
                    continue  # perhaps `n` is refused: each will be asked for alone
                if not came:
                    said = outcome.failure or "no reply in the answer"
                    for number in wanted:
                        yield k, number, Reply(failure=said, outage=outcome.outage)
                        missing[k].remove(number)
                    continue
                for number, reply in zip(wanted, came, strict=False):
                    yield k, number, reply
                    missing[k].remove(number)
            missing = {k: numbers for k, numbers in missing.items() if numbers}
            alone = True

    def _outcomes(
        self, asks: Sequence[tuple[Draw, list[int]]]
    ) -> Generator[tuple[int, Outcome[tuple[Reply, ...]]]]:
        with closing(self.client.ask(self._sampling_post(*one) for one in asks)) as outcomes:
            yield from outcomes

    def _sampling_post(self, draw: Draw, numbers: list[int]) -> Post[tuple[Reply, ...]]:
        messages = [{"role": m.role, "content": m.content} for m in draw.messages]
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": messages,
            self.settings.limit_field: draw.max_tokens,
            "temperature": draw.temperature,
            "top_p": draw.top_p,
            "seed": int(digest("sample", draw.seed, messages, numbers[0])[:7], 16),
        }
        if len(numbers) > 1:
            body["n"] = len(numbers)
        read = partial(read_choices, most=len(numbers))
        return Post("chat/completions", body_of(body), read, draw.max_tokens * len(numbers))


def read_choices(said: Any, most: int) -> tuple[Reply, ...] | None:
    """Read a completion's choices, at most so many; None where it is no completion."""
    return tuple(map(_read, said["choices"][:most])) or None


def _read(choice: Mapping[str, Any]) -> Reply:
    text = choice["message"].get("content") or ""
    if not isinstance(text, str):
        raise TypeError("content is no text")
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        return Reply(failure="refused by the endpoint's content filter")
    return Reply(text, reason == "length")


def _cut(numbers: list[int]) -> Iterator[list[int]]:
    for first in range(0, len(numbers), MOST_AT_ONCE):
        yield numbers[first : first + MOST_AT_ONCE]
