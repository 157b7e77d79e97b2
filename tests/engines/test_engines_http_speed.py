"""How many requests at once: servers of known speed, in virtual time."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints import FunctionWire, Loopback, client, number, ok, post, run_virtually
from palate.engines.http_transport import HttpResponse

FIRST = 300
"""The speed is read from the reply after so many on."""


class Server:
    """So many requests at a time, each for its seconds; the others wait in line."""

    def __init__(self, room, seconds, tokens=None):
        self.room, self.seconds, self.tokens = room, seconds, tokens
        self.ends, self.busy, self.busiest = [], 0, 0

    async def __call__(self, path, body):
        if not self.ends and not self.busy:
            self.free = asyncio.Semaphore(self.room)
        k = number(body)
        self.busy += 1
        self.busiest = max(self.busy, self.busiest)
        await self.work(self.seconds(k) if callable(self.seconds) else self.seconds)
        self.busy -= 1
        self.ends.append(asyncio.get_running_loop().time())
        if self.tokens is None:
            return ok()
        return ok(prompt_tokens=10, completion_tokens=self.tokens(k))

    async def work(self, seconds):
        async with self.free:
            await asyncio.sleep(seconds)

    def rate(self, first=FIRST):
        return (len(self.ends) - first) / (self.ends[-1] - self.ends[first - 1])


class SharedServer(Server):
    """All requests at once, each slower by as many times as there are too many."""

    async def work(self, seconds):
        while seconds > 0:
            await asyncio.sleep(0.1)
            seconds -= 0.1 / max(1.0, self.slowness())

    def slowness(self):
        return self.busy / self.room


class Overrun(SharedServer):
    """As that, and beyond its room it loses speed besides."""

    def slowness(self):
        return (self.busy / self.room) ** 1.5


def lengths(seed):
    """What varies from reply to reply: half as long as usual, or many times."""
    draws = random.Random(seed)
    return [0.25 + 0.75 * draws.expovariate(1.0) for _ in range(6000)]


def asked(server, n, **how):
    made = client(FunctionWire(server), **{"timeout_s": 1e6, **how})
    found = run_virtually(made, [post(k) for k in range(n)])
    assert all(outcome.failure is None for outcome in found)
    return made


def best(make, n, levels):
    rates = []
    for level in levels:
        server = make()
        asked(server, n, concurrency=level)
        rates.append(server.rate())
    return max(rates)


def test_a_server_with_its_knee_at_96_is_asked_at_nine_tenths_of_its_best():
    # 96 times 20 replies after the first 300: whole waves of replies.
    n = FIRST + 96 * 20
    levels = [8, 32, 64, 96, 128, 192]
    found = best(lambda: Server(96, 2.0), n, levels)
    assert found == pytest.approx(48, rel=0.06)
    server = Server(96, 2.0)
    asked(server, n)
    assert server.rate() >= 0.9 * found
    assert server.busiest <= 256, "one step beyond the knee is tried, and no more"


@pytest.mark.parametrize(("kind", "share"), [(Server, 0.9), (SharedServer, 0.9), (Overrun, 0.75)])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_knee_of_96_is_found_whatever_varies_and_whatever_is_beyond_it(kind, share, seed):
    n = 1500
    of = lengths(seed)
    told = [None, lambda k: 1 + int(200 * of[k])][seed % 2]
    server = kind(96, lambda k: 2 * of[k], told)
    asked(server, n)
    # At most 96 work at a time for 2 s on average; the last replies leave places empty.
    fixed = kind(96, lambda k: 2 * of[k], told)
    asked(fixed, n, concurrency=96)
    # Of a server that loses speed beyond its knee, 128 get 0.87 of what 96 would.
    assert server.rate() >= share * fixed.rate()


@pytest.mark.parametrize("seed", [3, 4, 5])
@pytest.mark.parametrize("room", [8, 3, 1])
def test_a_small_server_is_not_crowded_and_loses_nothing(room, seed):
    of = lengths(seed)
    server = Server(room, lambda k: of[k], lambda k: 1 + int(100 * of[k]))
    made = asked(server, 900)
    total = sum(of[:900])
    assert server.ends[-1] <= 1.1 * total / room
    assert server.busiest <= 64
    assert made._speed._held_level <= 32


def test_a_serial_server_is_asked_one_by_one():
    server = Server(1, 1.0)
    made = asked(server, 400)
    assert made._speed._held_level == 1
    assert server.ends[-1] == pytest.approx(400, rel=0.01), "it never waits for palate"


def test_without_a_knee_512_are_under_way_and_never_more():
    server = Server(10**6, 2.0)
    asked(server, 6000)
    assert server.busiest == 512


def test_a_knee_that_moves_up_is_found_again():
    server = Server(16, 1.0)
    asked_at = []

    async def answer(path, body):
        if number(body) == 1500:
            server.room = 128
            for _ in range(112):
                server.free.release()
        reply = await server(path, body)
        asked_at.append(server.busy)
        return reply

    made = client(FunctionWire(answer), timeout_s=1e6)
    run_virtually(made, [post(k) for k in range(9000)])
    assert max(asked_at[600:1400]) <= 64
    late = server.ends[-3000:]
    assert 3000 / (late[-1] - late[0]) >= 0.9 * 128


def test_what_the_server_refuses_lowers_the_level_and_it_rises_again():
    busy, room, sent = 0, 12, 0
    limits = []

    async def answer(path, body):
        nonlocal busy, room, sent
        sent += 1
        room = 12 if sent < 3000 else 200
        busy += 1
        limits.append(made._concurrency.limit)
        over = busy > room
        await asyncio.sleep(1.0)
        busy -= 1
        return HttpResponse(429, {}, b"") if over else ok()

    made = client(FunctionWire(answer), retries=1000)
    found = run_virtually(made, [post(k) for k in range(12000)])
    assert all(outcome.value == 1 for outcome in found)
    middle = limits[800:2900]
    assert 6 <= sum(middle) / len(middle) <= 14, "near the twelve that the server takes"
    assert limits[-1] > 100, "the level is doubled again when the server takes more"


@pytest.mark.parametrize("how", [{"rpm": 60}, {"tpm": 6000}])
def test_limits_on_a_minute_are_kept_and_nothing_is_doubled_for_them(how):
    server = Server(10**6, 2.0, lambda k: 50)
    made = asked(server, 500, **how)
    assert made._concurrency.most <= 16
    in_a_minute = max(sum(start <= at < start + 60 for at in server.ends) for start in server.ends)
    assert in_a_minute <= 100


def test_a_concurrency_that_is_given_is_kept():
    server = Server(96, 2.0)
    asked(server, 600, concurrency=24)
    assert server.busiest == 24


@given(
    fates=st.lists(st.sampled_from(["ok", "slow", "429", "503", "silent", "500"]), min_size=40),
    fixed=st.sampled_from([None, 1, 5]),
)
@settings(max_examples=25)
def test_whatever_comes_at_least_one_and_at_most_512_are_under_way(fates, fixed):
    busy, levels = 0, []

    async def answer(path, body):
        nonlocal busy
        busy += 1
        levels.append((busy, made._concurrency.limit, made._concurrency.most))
        fate = fates[(number(body) * 7 + len(levels)) % len(fates)]
        try:
            await asyncio.sleep({"slow": 50.0, "silent": 500.0}.get(fate, 1.0))
        finally:
            busy -= 1
        return HttpResponse(int(fate), {}, b"") if fate.isdigit() else ok()

    made = client(FunctionWire(answer), retries=2, concurrency=fixed)
    found = run_virtually(made, [post(k) for k in range(200)])
    assert len(found) == 200
    for under_way, limit, most in levels:
        assert 1 <= limit <= most <= (fixed or 512)
        assert under_way <= (fixed or 512)
    assert made._concurrency.active == made._speed._under_way == made.ledger._open.total() == 0


def test_a_time_out_is_a_sign_of_load_only_where_none_that_left_later_is_back():
    async def one_hangs(path, body):
        await asyncio.sleep(1e6 if number(body) % 50 == 3 else 1.0)
        return ok()

    made = client(FunctionWire(one_hangs), concurrency=8, timeout_s=30, retries=0)
    found = run_virtually(made, [post(k) for k in range(240)])
    assert sum(outcome.outage for outcome in found) == 5
    assert made._concurrency.limit == 8

    async def all_hang(path, body):
        await asyncio.sleep(1e6)

    made = client(FunctionWire(all_hang), concurrency=8, timeout_s=30, retries=0)
    run_virtually(made, [post(k) for k in range(40)])
    assert made._concurrency.limit < 4


def test_as_many_connections_are_open_as_the_level_asks_for():
    lock, state = threading.Lock(), {"busy": 0, "busiest": 0}

    def answer(path, body):
        with lock:
            state["busy"] += 1
            state["busiest"] = max(state.values())
        threading.Event().wait(0.25)
        with lock:
            state["busy"] -= 1
        return 200, {"value": body["k"]}

    with Loopback(answer) as there:
        made = client(None, base_url=there.url)
        found = dict(made.ask(post(k) for k in range(400)))
    assert {k: outcome.value for k, outcome in found.items()} == {k: k for k in range(400)}
    assert state["busiest"] > 32, "no knee was there to be found"
    assert len(there.seen) == 400
