"""Pace and gate: what may leave when, in virtual time."""

from __future__ import annotations

import asyncio
import json
import random
from email.utils import formatdate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints import FunctionWire, VirtualLoop, client, number, ok, post, run_virtually
from palate.engines.http_limits import ConcurrencyLimit
from palate.engines.http_transport import HttpResponse

MINUTE = 60.0


def most_in_a_minute(events):
    """The largest sum over any half-open minute of (time, amount)."""
    return max(
        sum(amount for at, amount in events if start <= at < start + MINUTE) for start, _ in events
    )


@given(
    rpm=st.integers(1, 12),
    starts=st.lists(st.floats(0, 200), min_size=1, max_size=50),
    latency=st.floats(0, 90),
)
@settings(max_examples=60)
def test_requests_never_exceed_rpm_over_any_minute(rpm, starts, latency):
    sent = []

    async def answer(path, body):
        sent.append((asyncio.get_running_loop().time(), 1))
        await asyncio.sleep(latency)
        return ok()

    asked = client(FunctionWire(answer), rpm=rpm, concurrency=4)
    found = run_virtually(asked, [post(k) for k in range(len(starts))], starts)
    assert [one.value for one in found] == [1] * len(starts)
    assert len(sent) == len(starts)
    assert most_in_a_minute(sent) <= rpm


@given(data=st.data(), tpm=st.integers(2_000, 6_000), n=st.integers(1, 30))
@settings(max_examples=60)
def test_tokens_never_exceed_tpm_over_any_minute(data, tpm, n):
    sent = []
    outs = data.draw(st.lists(st.integers(0, 800), min_size=n, max_size=n))
    shares = data.draw(st.lists(st.floats(0, 1), min_size=n, max_size=n))

    async def answer(path, body):
        # The server counts what it was: at most a token per byte, at most what was allowed.
        k = number(body)
        tokens = int(len(body) * shares[k]), int(outs[k] * shares[k])
        sent.append((asyncio.get_running_loop().time(), sum(tokens)))
        await asyncio.sleep(0.5)
        return ok(prompt_tokens=tokens[0], completion_tokens=tokens[1])

    asked = client(FunctionWire(answer), tpm=tpm, concurrency=8)
    found = run_virtually(asked, [post(k, outs[k], "y" * 400) for k in range(n)])
    assert all(one.failure is None for one in found)
    assert most_in_a_minute(sent) <= tpm


def test_a_request_larger_than_the_limit_goes_alone_instead_of_never():
    async def answer(path, body):
        return ok()

    asked = client(FunctionWire(answer), tpm=10)
    assert [one.value for one in run_virtually(asked, [post(), post(1)])] == [1, 1]


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_holds_back_every_request_not_only_the_one(as_date):
    sent = []

    async def answer(path, body):
        now = asyncio.get_running_loop().time()
        sent.append((now, number(body)))
        first = len(sent) == 1
        await asyncio.sleep(1)
        if first:
            value = formatdate(asked._clock.wall() + 31, usegmt=True) if as_date else "30"
            return HttpResponse(429, {"Retry-After": value}, b"")
        return ok()

    asked = client(FunctionWire(answer), concurrency=2)
    found = run_virtually(asked, [post(k) for k in range(8)])
    assert all(one.value == 1 for one in found)
    held = [at for at, _ in sent if 1 < at < 30.5]
    assert sent[0][0] == sent[1][0] == 0, "two were under way before the server spoke"
    assert held == []
    assert sorted(k for _, k in sent) == sorted([*range(8), sent[0][1]])


def test_ten_in_a_hundred_500s_do_not_lower_the_concurrency():
    draws = random.Random(3)
    busy, busiest = 0, []

    async def answer(path, body):
        nonlocal busy
        busy += 1
        busiest.append(busy)
        await asyncio.sleep(0.05)
        busy -= 1
        return HttpResponse(500, {}, b"") if draws.random() < 0.1 else ok()

    asked = client(FunctionWire(answer), concurrency=32, retries=20)
    assert all(one.value == 1 for one in run_virtually(asked, [post(k) for k in range(2000)]))
    assert asked._concurrency.limit == 32
    assert max(busiest) == 32


def test_the_signs_of_one_overload_count_once():
    async def scene():
        gate = ConcurrencyLimit(64)
        tickets = [await gate.enter() for _ in range(64)]
        for ticket in tickets:
            gate.too_much(ticket)
        first = gate.limit
        for _ in tickets:
            gate.leave()
        for _ in range(40):
            gate.too_much(await gate.enter())
            gate.leave()
        return first, gate.limit

    first, last = asyncio.run(scene())
    assert 40 < first < 64
    assert last == 1.0, "never below one"


@given(st.lists(st.sampled_from(["enter", "leave", "cancel", "well", "much"]), max_size=120))
def test_a_gate_never_lets_in_more_than_its_limit_and_loses_no_place(steps):
    async def scene():
        gate, inside, waiting = ConcurrencyLimit(4), [], []
        for step in steps:
            if step == "enter":
                waiting.append(asyncio.ensure_future(gate.enter()))
            elif step == "leave" and inside:
                inside.pop()
                gate.leave()
            elif step == "cancel" and waiting:
                waiting.pop().cancel()
            elif step == "well":
                gate.went_well()
            elif step == "much" and inside:
                gate.too_much(inside[-1])
            before = gate.active
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert gate.active <= max(before, int(gate.limit))
            inside += [w.result() for w in waiting if w.done() and not w.cancelled()]
            waiting = [w for w in waiting if not w.done()]
            assert gate.active == len(inside)
            assert not waiting or gate.active >= int(gate.limit)
        for task in waiting:
            task.cancel()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scene())


def test_the_body_is_the_same_for_half_a_surrogate():
    assert json.loads(post(filler="\ud800é").body)["filler"] == "\ud800é"
