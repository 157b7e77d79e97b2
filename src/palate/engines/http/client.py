"""Asks an endpoint: retries, limits, the cache and the cap, for any kind of request."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, suppress
from decimal import Decimal
from typing import Any, NoReturn, TypedDict, TypeVar

from palate.engines.http.concurrency import ConcurrencyLimit
from palate.engines.http.events import IN_ONE_PIECE, NoStream, is_stream, streamed_body, whole_reply
from palate.engines.http.ledger import Ledger, Prices
from palate.engines.http.loop import LoopThread
from palate.engines.http.prompt_counts import count_of
from palate.engines.http.rate_limit import Clock, RateLimit
from palate.engines.http.refusals import (
    ANOTHER_WAY,
    FIRST,
    REFUSED,
    REMEDIES,
    FirstRefusals,
    models_beside,
    one_line,
    read_refusal,
    status_within,
)
from palate.engines.http.reply_cache import ReplyCache
from palate.engines.http.request import NOT_SENT, AllRefused, HttpOutcome, HttpRequest, Retry
from palate.engines.http.settings import HttpSettings, check_url, read_key
from palate.engines.http.speed_search import START, SpeedSearch, most_at_once
from palate.engines.http.transport import (
    RETRIED,
    TOO_MUCH,
    HttpResponse,
    Transport,
    TransportFailure,
    backoff,
    retry_after,
)
from palate.errors import EndpointError, UsageError

T = TypeVar("T")
TEMPLATE = 256
"""More tokens than a server's chat template adds around a conversation."""
AHEAD = 4
"""Requests drawn at a time, for each that may be under way."""
FREE = Decimal(0)
CUT = (
    "%s: prompts are cut: prompt_tokens is %d for %d letters; let the server read more (Ollama: "
    "OLLAMA_CONTEXT_LENGTH), or show less"
)
CAPPED = "not asked: the cost cap is reached"
log = logging.getLogger(__name__)


class ClientParts(TypedDict, total=False):
    """What clients of one session share, and what a test puts in the place of network and time."""

    ledger: Ledger | None
    replies: ReplyCache | None
    transport: Transport | None
    clock: Clock | None


class HttpClient:
    """Sends requests side by side and yields what came of each, once."""

    def __init__(
        self,
        settings: HttpSettings,
        *,
        noun: str = "reply",
        models: str = "models",
        ledger: Ledger | None = None,
        replies: ReplyCache | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_url(settings.base_url)
        read_key(settings.key_env)  # refused now, not at the first request
        self.settings, self._noun, self._models = settings, noun, models
        self.ledger = ledger or Ledger()
        self._prices = Prices(settings.price_in, settings.price_out)
        if self.ledger.max_cost is not None and not self._prices.known:
            raise UsageError(
                f"{settings.base_url}: a cost cap needs prices in USD per million tokens, "
                "as in ?price_in=0.5&price_out=1.5 (0 where nothing is charged)"
            )
        self._transport = transport
        self._clock = clock or Clock()
        self.replies = replies
        fixed, now = settings.concurrency is not None, self._clock.now
        self._concurrency = ConcurrencyLimit(settings.concurrency or START)
        self._speed = SpeedSearch(self._concurrency, now, most=most_at_once(), fixed=fixed)
        self._rate_limit = RateLimit(settings.rpm, settings.tpm, self._clock)
        self._first = FirstRefusals()
        self._stopped: EndpointError | None = None

    def ask(self, posts: Iterable[HttpRequest[T]]) -> Generator[tuple[int, HttpOutcome[T]]]:
        """Yield (position, outcome) as they come; posts are drawn as there is room for them.

        Closing the generator calls off what is under way. Raises `EndpointError` where going on
        is pointless: the key or the model is refused, the account is spent, or the first requests
        are all refused for one reason (`AllRefused`). Such refusals are not yielded before.
        """
        refused: list[tuple[int, HttpOutcome[T]]] = []
        held: list[tuple[int, HttpOutcome[T]]] = []
        with LoopThread() as thread:
            thread.wait(self.open())
            try:
                outcomes = thread.side_by_side(
                    self.request, posts, lambda: AHEAD * self._concurrency.most
                )
                with closing(outcomes):
                    for position, outcome in outcomes:
                        if outcome.refusal is not None and not self._first.over:
                            refused.append((position, outcome))
                        elif outcome.doubt is not None:
                            held.append((position, outcome))
                        else:
                            yield from refused
                            refused.clear()
                            yield position, outcome
            finally:
                thread.wait(self.close())
        last = refused[-1][1].refusal if refused else None
        if last is not None and last.words and last.field not in ANOTHER_WAY:
            url = self.settings.base_url
            log.warning("%s: %s; the server says: %s", url, last.reason, last.words)
        yield from refused
        for position, outcome in held:
            yield position, self._settled(outcome)

    async def open(self) -> None:
        """Begin in this event loop."""
        self._rate_limit.start()
        self._stopping = asyncio.Lock()
        if self._stopped is not None:
            self._first, self._stopped = FirstRefusals(), None
        self._speed.start()
        if self._transport is None:
            from palate.engines.http.aio import HttpTransport  # takes a tenth of a second

            self._transport = HttpTransport(self.settings)
        await self._transport.open()

    async def close(self) -> None:
        """Drop all connections."""
        if self._transport is not None:
            await self._transport.close()

    async def request(self, post: HttpRequest[T]) -> HttpOutcome[T]:
        """Ask until there is an answer, a refusal, or no attempt left."""
        url = (self.settings.root + post.path).encode()
        number = b"\n%d" % post.number if post.number else b""
        key = hashlib.sha256(url + b"\n" + post.body + number).hexdigest()  # it names the model
        if self.replies is not None:
            earlier = await asyncio.to_thread(self.replies.get, key)
            outcome = None if earlier is None else self._read(post, _parse(earlier))
            if isinstance(outcome, HttpOutcome) and post.may_stay(outcome):
                self.ledger.cached += 1
                return outcome
            if self.replies.requests is not None:
                self.replies.requests.add(key, self.settings.root, post.path, post.body)
                return HttpOutcome(failure=NOT_SENT, outage=True)
        with self.ledger.wanted():
            return await self._ask_again(post, key)

    async def _ask_again(self, post: HttpRequest[T], key: str) -> HttpOutcome[T]:
        reason, attempt = "no answer", 0
        while attempt <= self.settings.retries:
            result = await self._attempt(post, key)
            if isinstance(result, HttpOutcome):
                return result
            if result.at_once:
                continue
            reason = result.reason
            if result.rest:
                self._rate_limit.rest(min(self.settings.max_wait_s, result.rest))
            elif attempt < self.settings.retries:
                await self._clock.sleep(backoff(attempt))
            attempt += 1
        return HttpOutcome(failure=reason, outage=True)

    async def _attempt(self, post: HttpRequest[T], key: str) -> HttpOutcome[T] | Retry:
        bound = len(post.body) + TEMPLATE  # a token is at least one byte
        most, cost = self._prices.of(bound, post.tokens_out), FREE
        ticket = await self._concurrency.enter()
        try:
            await self._unless_stopped()
            if not await self._afford(most):
                return HttpOutcome(failure=CAPPED, outage=True)
            try:
                left = await self._rate_limit.leave(bound + post.tokens_out)
                cost = most  # what nothing is known of was charged in full
                trip = self._speed.leaves()
                try:
                    with self.ledger.on_its_way():
                        answer = await self._answer(post, ticket)
                    if isinstance(answer, Retry):
                        cost = most if answer.charged else FREE
                        return answer
                    reply, cost = None, FREE
                    if answer.status == 200:
                        reply, cost = _parse(answer.body), most
                        trip.answered(used := post.used(reply))
                        self.ledger.replied(used)
                        if used is not None:
                            cost = self._prices.of(*used)
                            self._rate_limit.correct(left, sum(used))
                finally:
                    self._speed.comes_back(trip)
            finally:
                self.ledger.settle(most, cost)
        finally:
            self._concurrency.leave()
        status = status_within(reply) or answer.status
        if status != 200:
            return await self._refused(status, answer, ticket)
        self._concurrency.went_well(ticket)
        read = self._read(post, reply)
        if isinstance(read, Retry):
            return read if read.reason else Retry(f"the reply was no {self._noun}")
        self._first.over = True
        if self.replies is not None and post.may_stay(read):
            if read.doubt is not None:
                return read._replace(doubt=(*read.doubt[:2], key, answer.body))
            await asyncio.to_thread(self.replies.put, key, answer.body)
        return read

    def _read(self, post: HttpRequest[T], parsed: Any) -> HttpOutcome[T] | Retry:
        # What the server says of a reply is compared with what was asked.
        read, settings = post.outcome(parsed), self.settings
        if isinstance(read, Retry) or read.value is None or not isinstance(parsed, dict):
            return read
        if isinstance(answered := parsed.get("model"), str):
            same = answered in ("", settings.model)
            text = f"{settings.model} was asked, and {one_line(answered, 80)} answered"
            self.ledger.note(settings.place, "model", "" if same else text)
        if (count := count_of(post.body, parsed.get("usage"), post.used(parsed))) is None:
            return read
        counts = self.ledger.counts[f"{post.path} {settings.place}"]
        counts.add(count)
        read = read._replace(doubt=(counts, count, "", b""))
        return read if count.doubtful else self._settled(read)

    def _settled(self, outcome: HttpOutcome[T]) -> HttpOutcome[T]:
        # What was held back goes on where all counts together show no cut.
        assert outcome.doubt is not None
        counts, count, key, body = outcome.doubt
        if not counts.cut(count):
            if body and self.replies is not None:
                self.replies.put(key, body)
            return outcome._replace(doubt=None)
        if not counts.warned:
            counts.warned = True
            log.warning(CUT, self.settings.base_url, count.tokens, count.letters)
        return HttpOutcome(failure=f"the server cut the prompt (prompt_tokens {count.tokens})")

    async def _answer(self, post: HttpRequest[Any], ticket: int) -> HttpResponse | Retry:
        seconds = self.settings.timeout_s
        reason = f"no answer within {seconds:g} s"

        def heard() -> None:  # a reply may take as long as it likes while bytes come
            nonlocal reason
            if not silence.expired():
                reason = f"the reply stopped for {seconds:g} s"
                silence.reschedule(asyncio.get_running_loop().time() + seconds)

        try:
            async with asyncio.timeout(seconds) as silence:
                return await self._send(post, heard)
        except NoStream:
            return Retry("no stream", charged=False, at_once=True)
        except TimeoutError:
            self._concurrency.timed_out(ticket)
            return Retry(reason)
        except TransportFailure as error:
            return Retry(f"connection failed ({error})", charged=error.sent)

    async def _send(self, post: HttpRequest[Any], heard: Callable[[], None]) -> HttpResponse:
        assert self._transport is not None
        way = self.ledger.ways.get(self.settings.root, 0) if post.streams else IN_ONE_PIECE
        if way == IN_ONE_PIECE:
            return await self._transport.post(post.path, post.body, heard)
        answer = await self._transport.post(post.path, streamed_body(post.body, way), heard)
        try:
            whole = whole_reply(answer)
        except NoStream:
            self._ask_by(way + 1)
            raise
        if answer.status == 200:
            priced = self._prices.known or self.settings.tpm is not None
            if not is_stream(answer) or (priced and post.used(_parse(whole.body)) is None):
                self._ask_by(IN_ONE_PIECE)
        return whole

    def _ask_by(self, way: int) -> None:
        root = self.settings.root
        if way == IN_ONE_PIECE != self.ledger.ways.get(root):
            log.info(
                "%s streams no replies, or none with usage: each has to begin within %g s "
                "(?timeout=S)",
                self.settings.base_url,
                self.settings.timeout_s,
            )
        self.ledger.ways[root] = max(way, self.ledger.ways.get(root, 0))

    async def _afford(self, most: Decimal) -> bool:
        while not self.ledger.reserve(most):
            if self.ledger.closed:
                return False
            await self._clock.sleep(0.02)
        return True

    async def _refused(
        self, status: int, answer: HttpResponse, ticket: int
    ) -> HttpOutcome[Any] | Retry:
        settings = self.settings
        refusal = read_refusal(status, answer.body, read_key(settings.key_env))
        start, model = f"{settings.base_url}: HTTP {status}, ", f"model {settings.model}"
        where = f"({model}, key from ${settings.key_env})"
        words = f"; the server says: {refusal.words}" if refusal.words else ""
        if refusal.spent:
            reason = f"{start}{refusal.spent}: the account may spend no more {where}{words}"
            await self._stop(EndpointError(reason))
        if status in REFUSED or (refusal.no_model and status not in RETRIED):
            await self._stop(
                EndpointError(f"{start}{REFUSED.get(status, REFUSED[404])} {where}"),
                lacks_model=status == 404 or refusal.no_model,
            )
        if status in RETRIED:
            if status in TOO_MUCH:
                self._concurrency.too_much(ticket)
            named = f"HTTP {status}" if answer.status == status else "HTTP 200 with an error"
            return Retry(named, retry_after(answer.headers, self._clock.wall()))
        if self._first.add(refusal):
            first = f"{settings.base_url}: the first {FIRST} requests were all refused: "
            remedy = f"; {REMEDIES[refusal.field]}" if refusal.field in REMEDIES else ""
            text = f"{first}{refusal.reason} ({model}){words}{remedy}"
            await self._stop(AllRefused(text, refusal))
        return HttpOutcome(failure=refusal.reason, refusal=refusal)

    async def _stop(self, error: EndpointError, *, lacks_model: bool = False) -> NoReturn:
        # Others wait for the one that asks which models there are, and raise the same.
        async with self._stopping:
            if self._stopped is None:
                if lacks_model:
                    error = EndpointError(f"{error}; {await self._which_models()}")
                self._stopped = error
            raise self._stopped

    async def _unless_stopped(self) -> None:
        if self._stopped is not None or self._stopping.locked():
            async with self._stopping:
                if self._stopped is not None:
                    raise self._stopped

    async def _which_models(self) -> str:
        assert self._transport is not None
        body = b""
        with suppress(TimeoutError, TransportFailure):
            async with asyncio.timeout(self.settings.timeout_s):
                answer = await self._transport.get(self._models)
                body = answer.body if answer.status == 200 else b""
        return models_beside(self.settings.model, body)


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
