"""Samples by prompt: one that cannot be drawn stops no other, and nothing is asked twice."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from children import called
from endpoints import Loopback
from palate.answers import NotDrawn, Sample, build_policy, draw_prompts, draw_samples
from palate.benchmarks import Dataset
from palate.engines import TOO_LONG
from palate.errors import EndpointError, ModelError
from palate.records import Message, PreferencePair, Settings
from palate.session import Session, default_session


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))


def said(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


PROMPTS = [said(f"Tea {k}?") for k in range(6)]


class Chat:
    """Answers each prompt, but for those that hold a word that it refuses or fails at."""

    def __init__(self, refuses="\0", fails="\0") -> None:
        self.refuses, self.fails = refuses, fails
        self.asked: list[tuple[str, int]] = []
        self.lock = threading.Lock()

    def __call__(self, path, body):
        text, n = body["messages"][-1]["content"], body.get("n", 1)
        with self.lock:
            self.asked.append((text, n))
        if self.refuses in text:
            return 400, {"error": {"message": "no", "code": "content_filter"}}
        if self.fails in text:
            return 500, {"error": {"message": "down"}}
        return 200, {"choices": [
            {"message": {"content": f"{text} {body['seed']} {k}"}, "finish_reason": "stop"}
            for k in range(n)
        ]}  # fmt: skip

    @property
    def prompts(self) -> list[str]:
        return [text for text, _ in self.asked]


def drawn(url, prompts, numbers, progress=None, **options):
    query = "&".join(f"{k}={v}" for k, v in {"base_url": url, "retries": 0, **options}.items())
    session = Session() if progress else default_session()
    policy = build_policy(f"api:m?{query}", session, Settings())
    return draw_prompts(policy, prompts, numbers, session.store, progress)


def test_one_refused_prompt_stops_no_other_and_is_asked_again():
    chat = Chat(refuses="Tea 2")
    with Loopback(chat) as server:
        first = drawn(server.url, PROMPTS, 1)
        assert isinstance(first[2][0], NotDrawn)
        assert "400" in first[2][0].reason
        assert not first[2][0].outage
        others = [k for k in range(6) if k != 2]
        assert all(first[k][0].text.startswith(f"Tea {k}?") for k in others)
        chat.asked.clear()
        assert drawn(server.url, PROMPTS, 1) == first
        assert set(chat.prompts) == {"Tea 2?"}
        chat.refuses = "\0"
        again = drawn(server.url, PROMPTS, 1)
    assert isinstance(again[2][0], Sample)
    assert [again[k] for k in others] == [first[k] for k in others]


def test_an_outage_is_a_reason_and_the_next_call_asks_what_lacks_alone():
    chat = Chat(fails="Tea 4")
    with Loopback(chat) as server:
        first = drawn(server.url, PROMPTS, 2)
        assert {n: (type(it), it.outage) for n, it in first[4].items()} == {
            0: (NotDrawn, True), 1: (NotDrawn, True),
        }  # fmt: skip
        assert all(isinstance(it, Sample) for k in (0, 1, 2, 3, 5) for it in first[k].values())
        chat.fails = "\0"
        chat.asked.clear()
        second = drawn(server.url, PROMPTS, 2)
    assert chat.asked == [("Tea 4?", 2)]
    assert all(isinstance(it, Sample) for some in second for it in some.values())


def test_numbers_are_those_asked_for_and_equal_prompts_share_them():
    chat = Chat()
    prompts = [said("Tea?"), said("Tea?"), said("Cake?")]
    with Loopback(chat) as server:
        first = drawn(server.url, prompts, [(0,), (2, 0), ()])
        assert [sorted(some) for some in first] == [[0], [0, 2], []]
        assert first[0][0] == first[1][0] != first[1][2]
        assert chat.asked == [("Tea?", 2)]
        second = drawn(server.url, prompts, 3)
    assert second[0][2] == first[1][2]
    assert chat.asked[1:] == [("Tea?", 1), ("Cake?", 3)] or chat.asked[1:] == [
        ("Cake?", 3), ("Tea?", 1),
    ]  # fmt: skip
    assert drawn("http://127.0.0.1:9", [], 3) == []


def test_answers_to_rows_are_the_samples_of_their_prompts():
    rows = Dataset("teas", tuple(
        PreferencePair(id=f"r{k}", user_id="u", text=f"Tea {k}?", chosen="yes", rejected="no")
        for k in range(6)
    ))  # fmt: skip
    chat = Chat()
    with Loopback(chat) as server:
        first = drawn(server.url, PROMPTS, 2)
        asked = len(chat.asked)
        session = default_session()
        policy = build_policy(f"api:m?base_url={server.url}", session, Settings())
        samples = draw_samples(policy, rows, 2, session.store)
    assert len(chat.asked) == asked
    assert [dict(enumerate(of_row)) for of_row in samples.of_row] == first


def test_an_endpoint_that_refuses_all_ends_soon():
    chat = Chat()
    chat.refuses = "Tea"
    prompts = [said(f"Tea {k}?") for k in range(400)]

    def refuse(path, body):
        chat(path, body)
        return 400, {"error": {"message": "no such option"}}

    with Loopback(refuse) as server, pytest.raises(EndpointError, match="were all refused"):
        drawn(server.url, prompts, 1, concurrency=2)
    assert len(chat.asked) < 40


def test_a_prompt_without_room_stops_no_other_but_all_answers_to_rows(tiny, monkeypatch):
    session = default_session()
    policy = build_policy(f"{tiny.model()}?max_tokens=9", session, Settings(dtype="float32"))
    short, long = said("tea ?"), said("tea ? " * 60)
    length = len(policy.model.reader.template.answer_prompt(short))
    monkeypatch.setattr(type(policy.model), "window", length + 9)
    rows = Dataset("teas", tuple(
        PreferencePair(id=text[:9], user_id="u", text=text, chosen="yes", rejected="no")
        for text in ("tea ?", "tea ? " * 60)
    ))  # fmt: skip
    with pytest.raises(ModelError, match=r"2 of 4 samples were not drawn \(too long\)"):
        draw_samples(policy, rows, 2, session.store)
    assert not list(session.store.documents("samples").folder.glob("??/*")), "nothing was drawn"

    samples = draw_prompts(policy, [long, short, long], 2, session.store)
    assert samples[0] == samples[2] == dict.fromkeys((0, 1), NotDrawn(TOO_LONG))
    assert [type(it) for it in samples[1].values()] == [Sample, Sample]
    monkeypatch.setattr(policy.model, "load", lambda: pytest.fail("a model was loaded"))
    assert draw_prompts(policy, [long, short, long], 2, session.store) == samples


def killed_after(n, url):
    def progress(done, _):
        if done >= n:
            os.kill(os.getpid(), signal.SIGKILL)

    drawn(url, PROMPTS, 2, progress)


def test_killed_half_way_asks_only_what_lacks():
    chat = Chat()
    with Loopback(chat) as server:
        assert called(__file__, f"killed_after(5, {server.url!r})") == -signal.SIGKILL
        folder = default_session().store.documents("samples").folder
        there = {path.name for path in folder.glob("??/*")}
        assert len(there) == 5
        assert str(folder).startswith(os.environ["PALATE_CACHE"])
        server.settle()
        chat.asked.clear()
        samples = drawn(server.url, PROMPTS, 2)
        # Replies that were under way may be in the endpoint's own cache.
        assert sum(n for _, n in chat.asked) <= 2 * len(PROMPTS) - len(there)
        assert all(isinstance(it, Sample) for some in samples for it in some.values())
        chat.asked.clear()
        assert drawn(server.url, PROMPTS, 2) == samples
    assert chat.asked == []
