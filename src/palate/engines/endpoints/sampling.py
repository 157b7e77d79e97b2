"""n replies to one prompt from a chat endpoint, however many it gives at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from palate.engines.endpoints.chat import ChatEndpoint, failed
from palate.engines.http import AllRefused, HttpRequest, Refusal
from palate.engines.http.replies import Reply
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
        for alone in (False, True):
            seeded = True
            while missing and seeded:  # where seed is refused, once more without
                seeded = self.sends_seed
                try:
                    yield from self._round(draws, missing, alone=alone)
                except AllRefused as error:
                    several = not alone and max(map(len, missing.values())) > 1
                    unseeded = seeded and self._refuses_seed(error.refusal)
                    if not unseeded and not (several and error.refusal.field in ("n", "")):
                        raise
                seeded = seeded and not self.sends_seed

    @property
    def sends_seed(self) -> bool:
        """Whether requests bear a seed: not where the server has refused it."""
        return not self.client.ledger.notes(self.settings.place).get("seed")

    def _refuses_seed(self, refusal: Refusal | None) -> bool:
        if refusal is None or refusal.field != "seed":
            return False
        text = f"{self.settings.model} refuses seed, and samples are drawn without"
        self.client.ledger.note(self.settings.place, "seed", text)
        return True

    def _round(
        self, draws: Sequence[SamplingRequest], missing: dict[int, list[int]], *, alone: bool
    ) -> Iterator[tuple[int, int, Reply]]:
        # Takes out of `missing` what it yields.
        most = 1 if alone else MOST_AT_ONCE
        requests = [
            (k, numbers[first : first + most])
            for k, numbers in missing.items()
            for first in range(0, len(numbers), most)
        ]
        seeded = self.sends_seed
        posts = (self._drawing(draws[k], some) for k, some in requests)
        with closing(self.client.ask(posts)) as outcomes:
            for at, outcome in outcomes:
                k, wanted = requests[at]
                replies = outcome.value
                if replies is None:
                    if seeded and self._refuses_seed(outcome.refusal):
                        continue
                    if len(wanted) > 1 and not outcome.outage:
                        continue  # perhaps `n` is refused: each will be asked for alone
                    replies = [failed(outcome)] * len(wanted)
                for number, reply in zip(wanted, replies, strict=False):
                    if reply.outage and outcome.value is not None:
                        continue  # one of several in which the server failed
                    yield k, number, reply
                    missing[k].remove(number)
                if not missing[k]:
                    del missing[k]

    def _drawing(self, draw: SamplingRequest, numbers: list[int]) -> HttpRequest[list[Reply]]:
        how, fields = draw.how, dict[str, Any]()
        if self.settings.sends_temperature:
            fields |= {"temperature": how.temperature, "top_p": how.top_p}
        if self.sends_seed:
            plain = [{"role": m.role, "content": m.content} for m in draw.messages]
            fields["seed"] = int(digest("sample", how.seed, plain, numbers[0])[:7], 16)
        if len(numbers) > 1:
            fields["n"] = len(numbers)
        request = self._request(draw.messages, how.max_tokens, fields, len(numbers))
        return request if "seed" in fields else request._replace(number=numbers[0])
