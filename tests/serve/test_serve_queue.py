"""Many clients at once: no reply is lost or another's, and what waits is the next batch."""

from __future__ import annotations

import http.client
import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from serving import Coded, Served, coded, rows, until

import palate
from palate.learning import fit
from palate.records import Choice, Scores, User
from palate.rewards import RewardRequest
from palate.serve.app import ServeSettings, warmed
from palate.serve.batching import RenderedText, answers_in, score_together
from palate.session import default_session


def item(row, *texts):
    return {"items": [{"row": row, "responses": list(texts)}]}


def test_64_clients_lose_nothing_and_get_nothing_of_others():
    scorer = Coded()
    ids = [row.id for row in rows().rows]

    def client(k):
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        draw, wrong = random.Random(k), []
        for j in range(6):
            row, n = draw.randrange(len(ids)), 100 * k + j
            body = json.dumps(item(ids[row], f"{n}", "no", f"{n + 50}"))
            connection.request("POST", "/score", body, {"Content-Type": "application/json"})
            (reply,) = json.loads(connection.getresponse().read())["items"]
            if reply["scores"] != [10_000.0 * row + n, None, 10_000.0 * row + n + 50]:
                wrong.append((k, j, reply))
        connection.close()
        return wrong

    with Served(coded(scorer)) as served, ThreadPoolExecutor(64) as clients:
        assert [wrong for k in clients.map(client, range(64)) for wrong in k] == []
        assert 2 <= len(scorer.batches) < 64 * 6, "what waits is scored together"


def test_what_waits_is_one_batch_and_answers_to_one_row_are_one_slate():
    scorer = Coded()
    with Served(coded(scorer)) as served, ThreadPoolExecutor(8) as clients:
        scorer.gate.clear()
        first = clients.submit(served.post, "/score", item("ann-0", "1"))
        until(lambda: scorer.batches)
        rest = [clients.submit(served.post, "/score", item("ann-0", str(k))) for k in (2, 3, 2)]
        rest.append(clients.submit(served.post, "/score", item("bob-1", "4")))
        until(lambda: served.queue.waiting == 4)
        scorer.gate.set()
        assert [each.result()[1]["items"][0]["scores"] for each in (first, *rest)] == [
            [1.0], [2.0], [3.0], [2.0], [30_004.0],
        ]  # fmt: skip
    assert sorted(map(sorted, scorer.batches[-1])) == [["2", "3"], ["4"]]


def test_a_full_queue_says_when_to_come_back_by_the_measured_rate():
    scorer = Coded()
    with Served(coded(scorer), ServeSettings(max_waiting=4)) as served, ThreadPoolExecutor(8) as go:
        served.queue._answers, served.queue._seconds = 2.0, 5.0  # measured: 2.5 s an answer
        scorer.gate.clear()
        running = go.submit(served.post, "/score", item("ann-0", "1", "2"))
        until(lambda: scorer.batches)
        waiting = go.submit(served.post, "/score", item("ann-0", "3", "4", "5"))
        until(lambda: served.queue.waiting == 3)
        status, reply, headers = served.call("POST", "/score", item("ann-0", "6", "7"))
        assert (status, reply) == (429, {"detail": "3 answers wait (limit 4)"})
        assert headers["Retry-After"] == "18", "2 in the batch, 3 that wait, 2 asked: 7 × 2.5 s"
        fits = go.submit(served.post, "/score", item("ann-0", "8"))
        until(lambda: served.queue.waiting == 4)
        scorer.gate.set()
        assert [each.result()[0] for each in (running, waiting, fits)] == [200] * 3
        assert served.queue._answers > 2.0


def test_a_client_that_leaves_frees_its_place():
    scorer = Coded()
    with Served(coded(scorer), ServeSettings(max_waiting=2)) as served, ThreadPoolExecutor(2) as go:
        scorer.gate.clear()
        first = go.submit(served.post, "/score", item("ann-0", "1"))
        until(lambda: scorer.batches)
        leaving = http.client.HTTPConnection("127.0.0.1", served.port)
        leaving.request("POST", "/score", json.dumps(item("ann-0", "2", "3")),
                        {"Content-Type": "application/json"})  # fmt: skip
        until(lambda: served.queue.waiting == 2)
        assert served.post("/score", item("ann-0", "4"))[0] == 429
        leaving.close()
        until(lambda: served.queue.waiting == 0)
        last = go.submit(served.post, "/score", item("ann-0", "4"))
        until(lambda: served.queue.waiting == 1)
        scorer.gate.set()
        assert (first.result()[0], last.result()[0]) == (200, 200)
    assert [text for batch in scorer.batches for of in batch for text in of] == ["1", "4"]


def test_a_failing_engine_fails_its_batch_and_serving_goes_on():
    with Served(coded(Coded())) as served:
        status, reply = served.post("/score", item("ann-0", "broken"))
        assert (status, reply) == (500, {"detail": "the scorer failed: ValueError"})
        assert served.post("/score", item("ann-0", "panic"))[0] == 500
        assert served.post("/score", item("ann-0", "1"))[0] == 200
        metrics = served.call("GET", "/metrics")[1]
    assert 'palate_answers_total{outcome="failed"} 2.0' in metrics
    assert 'palate_answers_total{outcome="scored"} 1.0' in metrics


def test_what_cannot_be_counted_is_answered_all_the_same():
    with Served(coded(Coded())) as served:

        def broken(*_):
            raise RuntimeError("no counter")

        served.queue._measured = broken
        for k in (1, 2):
            status, reply = served.post("/score", item("ann-0", str(k)))[:2]
            assert (status, reply["items"][0]["scores"]) == (200, [float(k)])


def test_503_while_the_scorer_loads_and_once_the_server_stops():
    loaded = threading.Event()

    def slow():
        assert loaded.wait(30)
        return coded(Coded())()

    with Served(slow, wait=False) as served:
        assert served.call("GET", "/healthz")[:2] == (200, {"status": "ok"})
        for method, path, body in (("GET", "/readyz", None), ("POST", "/score", item("a", "1"))):
            status, reply, headers = served.call(method, path, body)
            assert (status, reply) == (503, {"detail": "the server is loading"})
            assert headers["Retry-After"] == "1"
        loaded.set()
        until(lambda: served.call("GET", "/readyz")[0] == 200)
        assert served.post("/score", item("ann-0", "1"))[0] == 200
        served.queue.stop()
        assert served.call("GET", "/readyz")[:2] == (503, {"detail": "the server is stopping"})
        assert served.post("/score", item("ann-0", "1"))[0] == 503


def test_a_server_that_is_told_to_stop_does_not_wait_for_the_scorer_to_load():
    never = threading.Event()

    def slow():
        never.wait(60)
        return coded(Coded())()

    with Served(slow, wait=False) as served:
        assert served.queue.state == "loading"
    assert served.queue.reward is None
    never.set()


def test_one_answer_is_scored_before_the_server_is_ready():
    for values, batches in (((None,), 6), ((1.0,), 1)):
        scorer = Coded()
        scorer._scores = lambda _, values=values: Scores(values=values)
        reward = coded(scorer)()
        assert warmed(reward) is reward
        assert len(scorer.batches) == batches, "rows are tried until one can be scored"


def test_what_waits_is_scored_before_the_server_ends():
    scorer = Coded()
    with ThreadPoolExecutor(4) as go:
        with Served(coded(scorer)) as served:
            scorer.gate.clear()
            asked = [go.submit(served.post, "/score", item("ann-0", "1"))]
            until(lambda: scorer.batches)
            asked += [go.submit(served.post, "/score", item("ann-0", str(k))) for k in (2, 3)]
            until(lambda: served.queue.waiting == 2)
            served.server.should_exit = True
            served.queue.stop()
            scorer.gate.set()
        assert [each.result()[1]["items"][0]["scores"] for each in asked] == [[1.0], [2.0], [3.0]]


def test_a_refused_entry_fails_alone_and_any_other_error_is_everybodys():
    reward = palate.reward(Coded(), "none", benchmark=rows())
    good = [[RewardRequest(row="ann-0", responses=(str(k),))] for k in range(5)]
    bad = [RewardRequest(row="zed", responses=("1",))]
    outcomes = score_together(reward, [*good[:2], bad, *good[2:]])
    assert [getattr(it, "args", it) for it in outcomes] == [
        [((0.0, None),)], [((1.0, None),)], ("no row 'zed': waters has none",),
        [((2.0, None),)], [((3.0, None),)], [((4.0, None),)],
    ]  # fmt: skip
    failed = score_together(reward, [*good, [RewardRequest(row="ann-0", responses=("broken",))]])
    assert [type(it) for it in failed] == [ValueError] * 6
    assert answers_in([*bad, RenderedText("x")]) == 2


def liking(loud):
    texts = ("Go! Now! Win!!", "Perhaps rest a while.")[:: 1 if loud else -1]
    return tuple(
        Choice(question=f"Day {k}?", chosen=f"{texts[0]} {k}", rejected=f"{texts[1]} {k}")
        for k in range(6)
    )


def test_one_user_with_two_histories_is_two_requests(tmp_path):
    """As time goes on a client sends more choices of a user, while an older request waits."""
    known = {name: liking(name == "loud") for name in ("loud", "calm", "loud2")}
    fit("user-heads", known, ["style"], default_session(), palate.Settings()).save(tmp_path)
    reward = palate.reward(f"personal:{tmp_path}")
    users = [User(id="ann", choices=liking(loud)) for loud in (True, False)]
    texts = ("Run! Go!", "Rest a little.")
    loud, calm = score_together(
        reward, [[RewardRequest(question="Now?", user=user, responses=texts)] for user in users]
    )
    assert loud[0][0].value > loud[0][1].value
    assert calm[0][0].value < calm[0][1].value


@pytest.mark.parametrize("leaves", ["before", "during"])
def test_the_queue_is_empty_after_every_client_left(leaves):
    scorer = Coded()
    with Served(coded(scorer)) as served:
        scorer.gate.clear()
        connections = []
        for k in range(4):
            connection = http.client.HTTPConnection("127.0.0.1", served.port)
            connection.request("POST", "/score", json.dumps(item("ann-0", str(k))),
                               {"Content-Type": "application/json"})  # fmt: skip
            connections.append(connection)
            until(lambda k=k: scorer.batches if k == 0 else served.queue.waiting == k)
        if leaves == "during":
            scorer.gate.set()
        for connection in connections:
            connection.close()
        if leaves == "before":
            until(lambda: served.queue.waiting == 0)
        scorer.gate.set()
        until(lambda: served.queue.waiting == 0)
        assert served.post("/score", item("ann-0", "9"))[0] == 200
