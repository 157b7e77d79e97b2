"""Asks an endpoint: retries, limits, the cache and the cap, for any kind of request."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, suppress
from decimal import Decimal
from typing import Any, NoReturn, TypedDict, TypeVar, Unpack

from palate.engines import http_refusals as refusals
from palate.engines import http_replies as replies
from palate.engines.http_ledger import ANSWERED, Ledger, count_of
from palate.engines.http_limits import Clock, RateLimit, SpeedSearch, backoff, retry_after
from palate.engines.http_replies import IN_ONE_PIECE, NoStream
from palate.engines.http_requests import (
    NOT_SENT,
    AllRefused,
    HttpOutcome,
    HttpRequest,
    HttpSettings,
    Retry,
    check_url,
    read_key,
)
from palate.engines.http_transport import HttpResponse, HttpTransport, LoopThread, TransportFailure
from palate.engines.reply_cache import ReplyCache
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
    transport: HttpTransport | None
    clock: Clock | None


class HttpClient:
    """Sends requests side by side and yields what came of each, once."""

    def __init__(
        self,
        settings: HttpSettings,
        *,
        noun: str = "reply",
        models: str = "models",
        **parts: Unpack[ClientParts],
    ) -> None:
        check_url(settings.base_url)
        read_key(settings.key_env)  # refused now, not at the first request
        self.settings, self._noun, self._models = settings, noun, models
        self.ledger = parts.get("ledger") or Ledger()
        if self.ledger.max_cost is not None and not settings.priced:
            raise UsageError(
                f"{settings.base_url}: a cost cap needs prices in USD per million tokens, "
                "as in ?price_in=0.5&price_out=1.5 (0 where nothing is charged)"
            )
        self._transport = parts.get("transport") or HttpTransport(settings)
        self.replies = parts.get("replies")
        self._clock = parts.get("clock") or Clock()
        self._speed = SpeedSearch(settings.concurrency, self._clock.now)
        self._concurrency = self._speed.limit
        self._rate_limit = RateLimit(settings.rpm, settings.tpm, self._clock)
        self._first = refusals.FirstRefusals()
        self._stopped: EndpointError | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the report must know of the model that answers."""
        notes = self.ledger.notes(self.settings.place)
        return tuple(text for kind, text in notes.items() if text and kind != ANSWERED)

    def ask(self, posts: Iterable[HttpRequest[T]]) -> Generator[tuple[int, HttpOutcome[T]]]:
        """Yield (position, outcome) as they come; posts are drawn as there is room for them.

        Closing the generator calls off what is under way. Raises `EndpointError` where going on
        is pointless: the key or the model is refused, the account is spent, or the first requests
        are all refused for one reason (`AllRefused`). Such refusals are not yielded before.
        """
        refused: list[tuple[int, HttpOutcome[T]]] = []
        doubtful: list[tuple[int, HttpOutcome[T]]] = []
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
                            doubtful.append((position, outcome))
                        else:
                            yield from refused
                            refused.clear()
                            yield position, outcome
            finally:
                thread.wait(self._transport.close())
        last = refused[-1][1].refusal if refused else None
        if last is not None and last.words and last.field not in refusals.ANOTHER_WAY:
            url = self.settings.base_url
            log.warning("%s: %s; the server says: %s", url, last.reason, last.words)
        yield from refused
        for position, outcome in doubtful:
            yield position, self._settled(outcome)

    async def open(self) -> None:
        """Begin in this event loop."""
        self._rate_limit.start()
        self._stopping = asyncio.Lock()
        if self._stopped is not None:
            self._first, self._stopped = refusals.FirstRefusals(), None
        self._speed.start()
        await self._transport.open()

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
        with self.ledger.counted("wanted"):
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
        most, cost = self.settings.cost(bound, post.tokens_out), FREE
        ticket = await self._concurrency.enter()
        try:
            await self._unless_stopped()
            if not await self._afford(most):
                return HttpOutcome(failure=CAPPED, outage=True)
            try:
                left = await self._rate_limit.leave(bound + post.tokens_out)
                cost = most  # what nothing is known of was charged in full
                in_flight = self._speed.leaves()
                try:
                    with self.ledger.counted("on its way"):
                        answer = await self._answer(post, ticket)
                    if isinstance(answer, Retry):
                        cost = most if answer.charged else FREE
                        return answer
                    reply, cost = None, FREE
                    if answer.status == 200:
                        reply, cost = _parse(answer.body), most
                        in_flight.answered(used := post.used(reply))
                        self.ledger.replied(used)
                        if used is not None:
                            cost = self.settings.cost(*used)
                            self._rate_limit.tokens.correct(left, sum(used))
                finally:
                    self._speed.comes_back(in_flight)
            finally:
                self.ledger.settle(most, cost)
        finally:
            self._concurrency.leave()
        status = refusals.status_within(reply) or answer.status
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
        if isinstance(name := parsed.get("model"), str):
            # Behind a gateway, providers of one model may hold other weights.
            by = f" by {it}" if isinstance(it := parsed.get("provider"), str) and it else ""
            name = refusals.one_line(name + by, 80)
            self.ledger.note_answered(settings.place, settings.model, name)
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
        except NoStream as refusal:
            return Retry("no stream", charged=refusal.answered, at_once=True)
        except TimeoutError:
            self._concurrency.timed_out(ticket)
            return Retry(reason)
        except TransportFailure as error:
            return Retry(f"connection failed ({error})", charged=error.sent)

    async def _send(self, post: HttpRequest[Any], heard: Callable[[], None]) -> HttpResponse:
        mode = self.ledger.ways.get(self.settings.root, 0) if post.streams else IN_ONE_PIECE
        if mode == IN_ONE_PIECE:
            return await self._transport.post(post.path, post.body, heard)
        answer = await self._transport.post(post.path, post.body[:-1] + replies.WAYS[mode], heard)
        try:
            whole = replies.whole_reply(answer)
        except NoStream as refusal:
            self._set_reply_mode(IN_ONE_PIECE if refusal.answered else mode + 1)
            raise
        if answer.status == 200:
            counted = self.settings.priced or self.settings.tpm is not None
            unpriced = counted and post.used(_parse(whole.body)) is None
            if unpriced or not replies.is_stream(answer):
                self._set_reply_mode(IN_ONE_PIECE)
        return whole

    def _set_reply_mode(self, mode: int) -> None:
        root = self.settings.root
        if mode == IN_ONE_PIECE != self.ledger.ways.get(root):
            text = "%s streams no replies, or none with usage: each has to begin within %g s"
            log.info(f"{text} (?timeout=S)", self.settings.base_url, self.settings.timeout_s)
        self.ledger.ways[root] = max(mode, self.ledger.ways.get(root, 0))

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
        refusal = refusals.read_refusal(status, answer.body, read_key(settings.key_env))
        start, model = f"{settings.base_url}: HTTP {status}, ", f"model {settings.model}"
        where = f"({model}, key from ${settings.key_env})"
        words = f"; the server says: {refusal.words}" if refusal.words else ""
        if refusal.spent:
            reason = f"{start}{refusal.spent}: the account may spend no more {where}{words}"
            await self._stop(EndpointError(reason))
        known, retried = refusals.REFUSED, status in refusals.RETRIED
        if status in known or (refusal.no_model and not retried):
            why, lacks_model = known.get(status, known[404]), status == 404 or refusal.no_model
            await self._stop(EndpointError(f"{start}{why} {where}"), lacks_model=lacks_model)
        if retried:
            if status in refusals.TOO_MUCH:
                self._concurrency.too_much(ticket)
            named = f"HTTP {status}" if answer.status == status else "HTTP 200 with an error"
            return Retry(named, retry_after(answer.headers, self._clock.wall()))
        if self._first.add(refusal):
            first = f"{settings.base_url}: the first {refusals.FIRST} requests were all refused: "
            text = f"{first}{refusal.reason} ({model}){words}{refusal.remedy}"
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
        body = b""
        with suppress(TimeoutError, TransportFailure):
            async with asyncio.timeout(self.settings.timeout_s):
                answer = await self._transport.get(self._models)
                body = answer.body if answer.status == 200 else b""
        return refusals.models_beside(self.settings.model, body)


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
