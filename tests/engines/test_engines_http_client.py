"""The client as a whole: nothing lost, nothing twice, the cap, the cache, the thread."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import threading
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints import FastClock, FunctionWire, Loopback, client, number, ok, post, run_virtually
from palate.engines.http_ledger import Ledger
from palate.engines.http_refusals import FIRST
from palate.engines.http_requests import AllRefused, UnusableReply
from palate.engines.http_transport import HttpResponse, TransportFailure
from palate.errors import EndpointError, UsageError

KEY = "sk-very-secret-0123456789"
FATES = ["ok", "ok", "ok", "429", "429 later", "500", "503", "closed", "silence", "half", "400"]


def fate(name, k):
    if name == "closed":
        raise TransportFailure("ReadError")
    if name == "silence":
        raise TimeoutError
    if name == "half":
        return HttpResponse(200, {}, ok(k).body[:-4])
    if name == "ok":
        return ok(k)
    headers = {"Retry-After": "3"} if name.endswith("later") else {}
    return HttpResponse(int(name[:3]), headers, b"")


@given(
    fates=st.lists(st.lists(st.sampled_from(FATES), min_size=3, max_size=3), max_size=24),
    concurrency=st.integers(1, 5),
)
@settings(max_examples=40)
def test_whatever_the_server_does_each_request_ends_once_with_a_value_or_a_reason(
    fates, concurrency
):
    turns = Counter()

    async def answer(path, body):
        k = number(body)
        turns[k] += 1
        await asyncio.sleep(0)
        return fate(fates[k][turns[k] - 1], k)

    asked = client(FunctionWire(answer), FastClock(), concurrency=concurrency, retries=2)
    found = []
    try:
        found += asked.ask(post(k) for k in range(len(fates)))
    except AllRefused:
        assert sum("400" in fate for fate in fates) >= FIRST
        found = []
    else:
        assert Counter(position for position, _ in found) == Counter(range(len(fates)))
    for k, outcome in found:
        ends = next((j for j, name in enumerate(fates[k]) if name in ("ok", "400")), None)
        if ends is None:
            assert (outcome.value, outcome.outage) == (None, True)
            assert outcome.failure
            assert turns[k] == 3
        else:
            assert turns[k] == ends + 1, "nothing is asked again that has its answer"
            assert outcome.value == (k if fates[k][ends] == "ok" else None)
            assert outcome.failure == (None if fates[k][ends] == "ok" else "HTTP 400")
            assert not outcome.outage
    assert asked._concurrency.active == asked.ledger._under_way == asked.ledger._reserved == 0


@given(
    cap=st.floats(0, 0.01),
    prices=st.tuples(st.floats(0, 20), st.floats(0, 20)),
    outs=st.lists(st.integers(0, 300), min_size=1, max_size=25),
    fates=st.lists(st.sampled_from(["ok", "no usage", "500", "closed", "silence"]), min_size=60),
)
@settings(max_examples=60)
def test_the_cost_cap_is_never_passed_and_stops_everything(cap, prices, outs, fates):
    cap, prices = round(cap, 6), [round(price, 3) for price in prices]
    charged, sent_after_stop = [], 0
    turns = itertools.cycle(fates)
    ledger = Ledger(cap)

    async def answer(path, body):
        nonlocal sent_after_stop
        sent_after_stop += ledger.closed
        k, what = number(body), next(turns)
        tokens = (len(body) // 3, outs[k])
        await asyncio.sleep(0.01 * (k % 3))
        if what == "500":
            return HttpResponse(500, {}, b"")
        charged.append(sum(p * n for p, n in zip(prices, tokens, strict=True)) / 1e6)
        if what == "closed":
            raise TransportFailure("ReadError")
        if what == "silence":
            raise TimeoutError
        used = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
        return ok(**used) if what == "ok" else ok()

    asked = client(
        FunctionWire(answer), ledger=ledger, price_in=prices[0], price_out=prices[1],
        concurrency=4, retries=1,
    )  # fmt: skip
    posts = [post(k, outs[k], "y" * 200) for k in range(len(outs))]
    found = run_virtually(asked, posts)
    assert sum(charged) <= cap + 1e-15
    assert sum(charged) <= ledger.spent + 1e-12 <= cap + 2e-12
    assert sent_after_stop == 0
    capped = [one for one in found if one.failure == "not asked: the cost cap is reached"]
    assert all(one.outage for one in capped), "a later run asks it"
    assert bool(capped) == ledger.closed
    if max(prices) == 0:
        assert not capped


def test_a_bound_that_does_not_fit_waits_for_what_is_under_way():
    async def answer(path, body):
        await asyncio.sleep(1)
        return ok(prompt_tokens=1, completion_tokens=1)

    # Room for one bound at a time, but for hundreds of real costs.
    ledger = Ledger(0.0015)
    asked = client(FunctionWire(answer), ledger=ledger, price_in=1, price_out=1, concurrency=8)
    found = run_virtually(asked, [post(k, 1000) for k in range(50)])
    assert all(one.value == 1 for one in found)
    assert ledger.spent == pytest.approx(50 * 2e-6)


def test_a_cap_without_prices_is_refused_in_one_line():
    with pytest.raises(UsageError, match=r"price_in=0\.5&price_out=1\.5") as caught:
        client(None, ledger=Ledger(1.0))
    assert "\n" not in str(caught.value)


def values(asked, n):
    return {k: (one.value, one.failure) for k, one in asked.ask(post(k) for k in range(n))}


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_second_run_with_the_cache_sends_nothing_and_gives_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("PALATE_API_KEY", KEY)
    with Loopback(lambda path, body: (200, {"value": body["k"] / 7})) as server:
        first = client(None, base_url=server.url, cache=tmp_path / "c")
        once = values(first, 20)
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
        assert len(server.seen) == 20
        second = client(None, base_url=server.url, cache=tmp_path / "c")
        assert values(second, 20) == once
        assert len(server.seen) == 20
        assert (second.ledger.cached, second.ledger.requests, second.ledger.spent) == (20, 0, 0)
        other = client(None, base_url=server.url, cache=tmp_path / "c")
        list(other.ask([post(3, filler="another")]))
        assert len(server.seen) == 21, "another body is another question"
    for path in files(tmp_path):
        assert KEY.encode() not in path.read_bytes()
        assert KEY not in str(path)


@pytest.mark.parametrize("harm", ["cut", "flipped", "empty", "swapped"])
def test_a_damaged_reply_is_asked_again_and_said_so(tmp_path, caplog, harm):
    caplog.set_level(logging.WARNING)
    sent = []

    async def answer(path, body):
        sent.append(number(body))
        return ok(number(body) * 10)

    asked = client(FunctionWire(answer), cache=tmp_path)
    before = values(asked, 2)
    one, other = files(tmp_path)
    whole = one.read_bytes()
    one.write_bytes(
        {
            "cut": whole[:-3], "flipped": whole[:-3] + b"9" + whole[-2:], "empty": b"",
            "swapped": b"palate-document-1 00\n" + other.read_bytes().split(b"\n", 1)[1],
        }[harm]
    )  # fmt: skip
    assert values(client(FunctionWire(answer), cache=tmp_path), 2) == before
    assert len(sent) == 3
    assert str(one) in caplog.text
    assert "damaged" in caplog.text
    assert one.read_bytes() == whole, "mended"


def test_errors_are_never_kept(tmp_path):
    async def answer(path, body):
        k = number(body)
        status = (500, 400, 429, 200, 200)[k]
        return ok() if k == 4 else HttpResponse(status, {}, b"<html>")

    def filtered(said):
        raise UnusableReply("filtered")

    asked = client(FunctionWire(answer), FastClock(), cache=tmp_path, retries=1)
    posts = [*(post(k) for k in range(4)), post(4)._replace(read=filtered)]
    assert all(outcome.failure for _, outcome in asked.ask(posts))
    assert files(tmp_path) == []


def test_requests_are_drawn_as_there_is_room_and_closing_calls_off_the_rest():
    drawn, begun, ended = [], [], []

    def endless():
        for k in itertools.count():
            drawn.append(k)
            yield post(k)

    async def answer(path, body):
        begun.append(number(body))
        try:
            await asyncio.sleep(0.001 if number(body) < 20 else 60)
        finally:
            ended.append(number(body))
        return ok()

    asked = client(FunctionWire(answer), concurrency=4)
    replies = asked.ask(endless())
    for _ in range(15):
        next(replies)
    started = time.monotonic()
    replies.close()
    assert time.monotonic() - started < 5, "what was under way was not waited for"
    assert len(drawn) <= 15 + 4 * 4 + 1
    assert sorted(begun) == sorted(ended)
    assert not any(thread.name == "palate-http" for thread in threading.enumerate())


def test_an_error_of_the_source_and_a_refused_key_end_everything():
    async def answer(path, body):
        if number(body) == 5:
            return HttpResponse(401, {}, b"")
        await asyncio.sleep(0 if number(body) < 5 else 60)
        return ok()

    def broken():
        yield post(0)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        list(client(FunctionWire(answer)).ask(broken()))
    with pytest.raises(EndpointError, match="key was refused"):
        list(client(FunctionWire(answer)).ask(post(k) for k in range(100)))
    assert not any(thread.name == "palate-http" for thread in threading.enumerate())


def test_a_wire_that_cannot_open_says_so():
    transport = FunctionWire(None)

    async def refuse():
        raise EndpointError("no way out")

    transport.open = refuse
    with pytest.raises(EndpointError, match="no way out"):
        list(client(transport).ask([post()]))


def test_a_client_is_used_again_and_keeps_what_it_learned():
    async def answer(path, body):
        return ok() if number(body) else HttpResponse(429, {}, b"")

    asked = client(FunctionWire(answer), FastClock(), concurrency=10, retries=0)
    assert [one.failure for _, one in asked.ask([post(0)])] == ["HTTP 429"]
    learned = asked._concurrency.limit
    assert learned < 10
    assert [one.value for _, one in asked.ask([post(1)])] == [1]
    assert learned < asked._concurrency.limit < 10


def test_a_large_body_comes_through():
    with Loopback(lambda path, body: (200, {"value": len(body["filler"])})) as server:
        asked = client(None, base_url=server.url)
        filler = "é" * 2_000_000
        assert [one.value for _, one in asked.ask([post(0, filler=filler)])] == [2_000_000]
        assert json.loads(post(0, filler=filler).body)["filler"] == filler
