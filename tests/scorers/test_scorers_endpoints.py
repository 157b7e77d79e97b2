"""Scorers on an endpoint that fails in every way at once, on a real socket."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter

import pytest

from endpoints import FastClock, Loopback
from palate.engines import ChatEndpoint, EndpointLanguageModel, HttpClient, HttpSettings
from palate.errors import SpecError, UsageError
from palate.scorers import build_scorer
from palate.session import Session, default_session
from tiny import make_slate

N = 300
URL = "http://127.0.0.1:9/v1"


class Moody(asyncio.Protocol):
    """One request in ten fails: 429, 500, 503, a closed connection, silence or half a body."""

    turn = 0
    asked: Counter[str] = Counter()

    def connection_made(self, transport):
        self.transport, self.have = transport, b""

    def data_received(self, data):
        self.have += data
        while (end := self.have.find(b"\r\n\r\n")) >= 0:
            head = self.have[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self.have) < end + 4 + length:
                return
            body = json.loads(self.have[end + 4 : end + 4 + length])
            self.have = self.have[end + 4 + length :]
            self.answer(body)

    def answer(self, body):
        Moody.turn += 1
        text = body["messages"][-1]["content"]
        Moody.asked[text] += 1
        if "chat" in body["model"]:
            choice = {"message": {"content": "Rating: 7"}, "finish_reason": "stop"}
            said = json.dumps({"choices": [choice]})
        else:
            row = {"index": 0, "label": "L", "probs": [float(len(text))], "num_classes": 1}
            said = json.dumps({"data": [row]})
        whole = f"HTTP/1.1 200 OK\r\nContent-Length: {len(said)}\r\n\r\n{said}".encode()
        if Moody.turn % 10:
            self.transport.write(whole)
            return
        match Moody.turn // 10 % 6:
            case 0 | 1 | 2 as k:
                status = (429, 500, 503)[k]
                self.transport.write(f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode())
            case 3:
                self.transport.abort()
            case 4:
                pass  # silence: only the time-out ends it
            case 5:
                self.transport.write(whole[:-5])
                self.transport.close()


@pytest.fixture
def moody():
    ready, stop = threading.Event(), threading.Event()
    port = []

    async def serve():
        server = await asyncio.get_running_loop().create_server(Moody, "127.0.0.1", 0)
        port.append(server.sockets[0].getsockname()[1])
        ready.set()
        await asyncio.to_thread(stop.wait)
        server.close()

    Moody.turn, Moody.asked = 0, Counter()
    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    ready.wait()
    yield f"http://127.0.0.1:{port[0]}"
    stop.set()
    thread.join(5)


def slates():
    return [make_slate(f"Tea {k}.", f"Coffee {k}, hot.") for k in range(N)]


@pytest.mark.parametrize("retries", [0, 6])
@pytest.mark.parametrize("kind", ["rating", "classifier"])
def test_every_slate_ends_scored_or_unscored_with_its_reason(moody, kind, retries):
    how = {"concurrency": 16, "timeout_s": 1.0, "retries": retries}
    if kind == "rating":
        scorer = build_scorer(f"rating:api:chat?base_url={moody}/v1", default_session())
        chat = HttpSettings(model="chat", base_url=f"{moody}/v1", **how)
        scorer.answers.model = EndpointLanguageModel(ChatEndpoint(chat, clock=FastClock()))
    else:
        scorer = build_scorer(f"classifier:api:m?base_url={moody}&server=vllm", default_session())
        http = HttpSettings(model="m", base_url=moody, **how)
        scorer.client = HttpClient(http, noun="reward", clock=FastClock())
    found = list(scorer.score(slates()))
    assert Counter(position for position, _ in found) == Counter(range(N))
    unscored = 0
    for _, scores in found:
        reasons = scores.reasons or (None, None)
        for value, reason in zip(scores.values, reasons, strict=True):
            assert (value is None) == (reason is not None)
            unscored += value is None
        assert scores.outage == (None in scores.values)
    if retries:
        assert unscored == 0, "one in ten fails, seven in a row do not"
        assert sum(Moody.asked.values()) - 2 * N == Moody.turn // 10
    else:
        assert unscored == Moody.turn // 10 == 2 * N // 10
    if kind == "classifier":
        done = {k: scores.values for k, scores in found}
        for k, slate in enumerate(slates()):
            for value, text in zip(done[k], slate.candidates, strict=True):
                assert value in (None, float(len(text)))


def test_a_second_scorer_with_the_cache_asks_nothing_and_agrees(tmp_path):
    asked = []

    def answer(path, body):
        asked.append(path)
        text = f"Rating: {1 + len(asked) % 9}"
        return 200, {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}

    session = Session(cache=tmp_path)
    with Loopback(answer) as there:
        text = f"rating:api:m?base_url={there.url}/v1&concurrency=3"
        first = dict(build_scorer(text, session).score(slates()[:20]))
        second = dict(build_scorer(text, session).score(slates()[:20]))
    assert len(asked) == 40
    assert second == first


def test_what_was_not_asked_for_the_cap_is_an_outage_with_its_reason():
    def answer(path, body):
        used = {"prompt_tokens": 1000, "completion_tokens": 0}
        choice = {"message": {"content": "Rating: 7"}, "finish_reason": "stop"}
        return 200, {"choices": [choice], "usage": used}

    session = Session(max_cost=0.02)
    with Loopback(answer) as there:
        text = f"rating:api:m?base_url={there.url}/v1&price_in=1&price_out=0&concurrency=2"
        found = dict(build_scorer(text, session).score(slates()[:20]))
        again = dict(build_scorer(text, session).score(slates()[:20]))
    asked = sum(value is not None for scores in found.values() for value in scores.values)
    assert 17 <= asked == len(there.seen) <= 20, "two cents buy twenty; one bound is kept free"
    stopped = [scores for scores in found.values() if None in scores.values]
    assert all(scores.outage for scores in stopped)
    reasons = {why for scores in stopped for why in scores.reasons if why}
    assert reasons == {"not asked: the cost cap is reached"}
    assert all(scores.values == (None, None) for scores in again.values()), "one cap for all"


def test_a_cap_wants_prices_and_prices_are_numbers():
    with pytest.raises(UsageError, match="price_in"):
        build_scorer(f"judge:api:m?base_url={URL}", Session(max_cost=1.0))
    with pytest.raises(SpecError, match="price_out='cheap'"):
        build_scorer(f"judge:api:m?base_url={URL}&price_out=cheap", default_session())
    build_scorer("longest", Session(max_cost=1.0))


def test_how_a_judge_asks_is_no_part_of_what_it_is(tmp_path):
    plain = build_scorer(f"judge:api:m?base_url={URL}", default_session())
    network = "&rpm=3&tpm=4000&price_in=0.25&price_out=1&concurrency=4&timeout=9&retries=0"
    asked = build_scorer(
        f"judge:api:m?base_url={URL}{network}", Session(cache=tmp_path, max_cost=2.5)
    )
    assert plain.canonical == asked.canonical == f"judge:api:m?base_url={URL}"
    assert plain.info == asked.info
