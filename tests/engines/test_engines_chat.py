"""The chat endpoint against a real server on the loopback that misbehaves on purpose."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from functools import partial

import pytest

from endpoints import FastClock, Loopback, ask, chat_at, one_reply
from palate.engines import Reply
from palate.errors import EndpointError, SpecError, UsageError

KEY = "sk-very-secret-0123456789"


HANG_UP = (200, '{"choices": [{"mess', {"Content-Length": "1000", "Connection": "close"})


def completion(text="Verdict: A", finish="stop", **more):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, **more}
    return 200, {"choices": [{**choice, "finish_reason": finish}]}


class Server(Loopback):
    """Answers the n-th request with the n-th scripted answer, the last one for ever after."""

    def __init__(self):
        super().__init__(self.scripted)
        self.script, self.delay = [completion()], 0.0
        self.busy = self.busiest = 0
        self.lock = threading.Lock()

    def scripted(self, path, body):
        with self.lock:
            turn = len(self.seen) - 1
            self.busy += 1
            self.busiest = max(self.busiest, self.busy)
        time.sleep(self.delay)
        answer = self.script[min(turn, len(self.script) - 1)]
        answer = answer(body) if callable(answer) else answer
        with self.lock:
            self.busy -= 1
        return answer


@pytest.fixture
def server():
    with Server() as made:
        yield made


@pytest.fixture
def clock():
    return FastClock()


@pytest.fixture
def slept(clock):
    return clock.slept


@pytest.fixture
def endpoint(server, clock, monkeypatch):
    monkeypatch.setenv("PALATE_API_KEY", KEY)
    return partial(chat_at, server, clock=clock, timeout_s=5.0, retries=5)


def test_a_plain_answer_is_read_and_the_request_is_what_was_asked(server, endpoint, slept):
    reply = one_reply(endpoint(), text="Which?")
    assert reply == Reply("Verdict: A")
    ((path, body),) = server.seen
    assert path == "/v1/chat/completions"
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Which?"}],
        "max_tokens": 8,
        "temperature": 0,
    }
    assert slept == []


def test_retry_after_in_seconds_is_honoured(server, endpoint, slept):
    server.script = [(429, "slow down", {"Retry-After": "7"}), completion()]
    assert one_reply(endpoint()).text == "Verdict: A"
    assert slept == [7.0]


@pytest.mark.parametrize("value", ["soon", "-5", "nan", "Thu, 99 Foo 2026", "inf", "1e9"])
def test_a_strange_retry_after_never_stops_the_show(server, endpoint, slept, value):
    server.script = [(429, "", {"Retry-After": value}), completion()]
    assert one_reply(endpoint(max_wait_s=9.0)).text == "Verdict: A"
    assert len(slept) == 1
    assert 0 <= slept[0] <= 9.0


def test_a_500_is_tried_again(server, endpoint, slept):
    server.script = [(500, "oops"), (502, ""), completion()]
    assert one_reply(endpoint()).text == "Verdict: A"
    assert len(server.seen) == 3
    assert 0.25 <= slept[0] <= 0.75
    assert 0.5 <= slept[1] <= 1.5


def test_503_for_ever_is_an_outage_whose_reason_names_no_setting(server, endpoint, slept):
    server.script = [(503, "")]
    reply = one_reply(endpoint(retries=3))
    assert (reply.failure, reply.outage) == ("HTTP 503", True)
    assert len(server.seen) == 4
    assert len(slept) == 3, "no wait after the last attempt"


def test_a_time_out_is_an_outage_that_names_the_limit(server, endpoint):
    server.delay = 0.6
    reply = one_reply(endpoint(retries=1, timeout_s=0.1))
    assert (reply.failure, reply.outage) == ("no answer within 0.1 s", True)
    assert len(server.seen) == 2


def test_a_connection_closed_within_the_reply_is_tried_again(server, endpoint):
    server.script = [HANG_UP, completion("Verdict: B")]
    assert one_reply(endpoint()).text == "Verdict: B"
    server.script = [HANG_UP]
    reply = one_reply(endpoint(retries=1))
    assert reply.failure == "connection failed (ReadError)"
    assert reply.outage


def test_nobody_listening_is_an_outage(server, endpoint):
    asked = endpoint(base_url="http://127.0.0.1:9/v1", retries=1)
    reply = one_reply(asked)
    assert (reply.failure, reply.outage) == ("connection failed (ConnectError)", True)


ENDED = '"finish_reason": "stop", "message": {"content": "A"}'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<html>busy</html>", "the reply has no choices"),
        ("[]", "the reply has no choices"),
        ("{}", "the reply has no choices"),
        ('{"choices": [null]}', "the reply has no choices"),
        (f'{{"choices": [{{{ENDED}, "logprobs": {{"content": [{{"token": "A"}}]}}}}]}}',
         "the reply's logprobs cannot be read"),
    ],
)  # fmt: skip
def test_200_without_a_completion_is_tried_again_and_then_an_outage(server, endpoint, body, reason):
    server.script = [(200, body), completion()]
    assert one_reply(endpoint()).text == "Verdict: A"
    server.script = [(200, body)]
    reply = one_reply(endpoint(retries=1))
    assert reply.failure == reason
    assert reply.outage


def test_bytes_that_cannot_be_decompressed_are_tried_again(server, endpoint):
    server.script = [(200, "not gzip at all", {"Content-Encoding": "gzip"}), completion()]
    assert one_reply(endpoint()).text == "Verdict: A"


def test_length_and_filter_stops_are_told_apart(server, endpoint):
    server.script = [completion("Because", "length")]
    reply = one_reply(endpoint())
    assert (reply.text, reply.cut_off, reply.failure) == ("Because", True, None)
    server.script = [completion("", "content_filter")]
    reply = one_reply(endpoint())
    assert reply.failure == (
        "refused by the endpoint's content filter (finish_reason content_filter)"
    )
    assert not reply.outage, "asking again would be refused again"
    server.script = [completion(None)]
    assert one_reply(endpoint()).text == ""


@pytest.mark.parametrize(("status", "words"), [(401, "key"), (403, "access"), (404, "model")])
def test_a_refused_key_or_model_stops_everything_and_keeps_the_key(
    server, endpoint, status, words, caplog
):
    caplog.set_level(logging.DEBUG)
    server.script = [(status, {"error": {"message": f"Bad key {KEY}"}})]
    with pytest.raises(EndpointError, match=words) as caught:
        list(endpoint(concurrency=2).ask([ask() for _ in range(20)]))
    assert caught.value.exit_code == 3
    assert f"HTTP {status}" in str(caught.value)
    assert "$PALATE_API_KEY" in str(caught.value)
    assert KEY not in str(caught.value)
    assert KEY not in caplog.text
    assert len(server.seen) < 10, "the rest is not sent"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            {"code": "context_length_exceeded", "message": f"maximum context length is 9 {KEY}"},
            "HTTP 400: too long for the endpoint",
        ),
        ({"message": "This model's maximum context length is 8192 tokens"},
         "HTTP 400: too long for the endpoint"),
        ({"code": None, "type": "invalid_request_error", "message": f"no such thing {KEY}"},
         "HTTP 400: invalid_request_error"),
        ({"code": 400, "message": KEY}, "HTTP 400"),
        ("plain text", "HTTP 400"),
    ],
)  # fmt: skip
def test_a_400_is_final_no_outage_and_its_reason_is_a_fixed_word(
    server, endpoint, slept, error, reason
):
    server.script = [(400, {"error": error})]
    reply = one_reply(endpoint())
    assert (reply.failure, reply.outage) == (reason, False)
    assert len(server.seen) == 1
    assert slept == []


def test_concurrency_never_exceeds_the_setting_and_every_request_ends_once(server, endpoint):
    def moody(body):
        n = int(body["messages"][0]["content"])
        fate = n % 5
        if fate == 0:
            return 503, ""
        if fate == 1:
            return 400, ""
        if fate == 2:
            return 200, "nonsense"
        return completion(f"Verdict {n}")

    server.delay, server.script = 0.01, [moody]
    asked = endpoint(concurrency=3, retries=1)
    replies = list(asked.ask([ask(str(n)) for n in range(40)]))
    assert Counter(position for position, _ in replies) == Counter(range(40))
    assert server.busiest == 3
    for position, reply in replies:
        assert (reply.failure is None) == (position % 5 > 2)
        assert reply.text == (f"Verdict {position}" if position % 5 > 2 else "")
        assert reply.outage == (position % 5 in (0, 2))


def test_more_connections_than_the_client_keeps_by_default_are_allowed(server, endpoint):
    many = threading.Event()

    def crowded(body):
        if server.busiest > 100:
            many.set()
        many.wait(20)  # the first replies come when over a hundred are wanted at a time
        return completion()

    server.script = [crowded]
    asked = endpoint(concurrency=150)
    assert sum(reply.failure is None for _, reply in asked.ask([ask()] * 150)) == 150
    assert server.busiest > 100


def test_no_asks_give_no_replies(endpoint):
    assert list(endpoint().ask([])) == []


def test_stopping_early_sends_no_more(server, endpoint):
    server.delay = 0.02
    replies = endpoint(concurrency=1).ask([ask() for _ in range(30)])
    next(replies)
    replies.close()
    assert len(server.seen) < 5


def test_log_probabilities_of_the_first_token_are_read(server, endpoint):
    top = [{"token": "A", "logprob": -0.5}, {"token": " B", "logprob": -1.5}]
    first = {"token": "A", "logprob": -0.5, "top_logprobs": top}
    server.script = [completion("A", logprobs={"content": [first, {"token": "x", "logprob": 0}]})]
    reply = one_reply(endpoint(), top_logprobs=20)
    assert reply.first_token == {"A": -0.5, " B": -1.5}
    assert (server.seen[0][1]["logprobs"], server.seen[0][1]["top_logprobs"]) == (True, 20)
    server.script = [completion("A")]
    assert one_reply(endpoint(), top_logprobs=20).first_token is None


def test_the_key_comes_from_the_named_variable_only(server, endpoint, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    asked = endpoint()
    one_reply(asked)
    assert server.headers[-1]["Authorization"] == f"Bearer {KEY}"
    held = [asked.settings, asked, asked.client, asked.__dict__, asked.client.__dict__]
    for text in map(repr, [*held, asked.client._transport.__dict__]):
        assert KEY not in text
    assert KEY not in caplog.text
    monkeypatch.setenv("OTHER_KEY", "other-key\n")
    one_reply(endpoint(key_env="OTHER_KEY"))
    assert server.headers[-1]["Authorization"] == "Bearer other-key"
    one_reply(endpoint(key_env="NOT_SET_AT_ALL"))
    assert "Authorization" not in server.headers[-1]


def test_a_key_no_header_can_hold_is_refused_without_quoting_it(endpoint, monkeypatch):
    monkeypatch.setenv("OTHER_KEY", "sk-s3crét")
    with pytest.raises(UsageError, match=r"\$OTHER_KEY") as caught:
        endpoint(key_env="OTHER_KEY")
    assert "s3cr" not in str(caught.value)


@pytest.mark.parametrize("url", ["127.0.0.1:80/v1", "ftp://x/v1", "http://", "http://[::1/v1", ""])
def test_a_base_url_that_is_none_is_refused(endpoint, url):
    with pytest.raises(SpecError, match="base_url"):
        endpoint(base_url=url)


def test_a_password_in_the_base_url_is_refused_without_quoting_it(endpoint):
    with pytest.raises(SpecError, match="base_url") as caught:
        endpoint(base_url="https://me:hunter2@host/v1")
    assert "hunter2" not in str(caught.value)
