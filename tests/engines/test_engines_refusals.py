"""What a refusal's body says: fixed words for the reason, the field, the server's own words."""

from __future__ import annotations

import json
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints import FastClock, FunctionWire, client, number, ok, post
from palate.engines.http_refusals import (
    FIELDS,
    FIRST,
    FirstRefusals,
    Refusal,
    one_line,
    read_refusal,
)
from palate.engines.http_requests import AllRefused
from palate.engines.http_transport import HttpResponse
from palate.errors import EndpointError

KEY = "sk-very-secret-0123456789"
REASON = re.compile(rf"HTTP \d{{3}}(: too long for the endpoint)?( \(({'|'.join(FIELDS)})\))?")
NAMED = [
    ({"message": "x", "param": "temperature"}, "temperature"),
    ({"message": "x", "param": "body.top_logprobs"}, "top_logprobs"),
    ({"message": "Unsupported value: 'temperature' does not support 0"}, "temperature"),
    ({"message": "Unsupported parameter: 'max_tokens' is not supported with this model. "
                 "Use 'max_completion_tokens' instead."}, "max_tokens"),
    ({"message": "max_completion_tokens is not permitted"}, "max_completion_tokens"),
    ({"message": "`top_p` and `temperature` cannot both be set"}, "top_p"),
    ({"message": "Invalid value at 'generation_config.seed'"}, "seed"),
    ({"message": "Only 'n' = 1 is supported", "param": None}, "n"),
    ({"message": "parameter n must be 1"}, "n"),
    ({"message": "Requested sample logprobs of 20", "param": "logprobs"}, "logprobs"),
    ({"message": "Temperature must be 1 for this model"}, "temperature"),
    ({"message": "Which temperature for tea, n times? Your seed did not grow."}, ""),
    ({"message": "In a warm temperature I wrote", "param": "messages"}, ""),
    ("plain words about n and seed", ""),
    ({"message": None}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("error", "field"), NAMED)
def test_the_refused_field_is_named_where_the_server_names_one(error, field):
    refusal = read_refusal(400, json.dumps({"error": error}).encode())
    assert refusal.field == field
    assert refusal.reason == (f"HTTP 400 ({field})" if field else "HTTP 400")


def test_fastapis_list_of_details_names_its_place():
    detail = [{"loc": ["body", "temperature"], "msg": "Extra inputs", "type": "extra_forbidden"}]
    refusal = read_refusal(422, json.dumps({"detail": detail}).encode())
    assert (refusal.reason, refusal.field) == ("HTTP 422 (temperature)", "temperature")
    assert refusal.words == "body.temperature: Extra inputs"


@given(st.text(max_size=400), st.sampled_from([400, 402, 413, 422, 429]))
def test_no_free_text_is_in_a_reason_and_no_control_character_in_the_words(text, status):
    for body in ({"error": {"message": text}}, {"detail": text}, {"error": text}, text):
        refusal = read_refusal(status, json.dumps(body).encode(), KEY)
        assert REASON.fullmatch(refusal.reason)
        assert refusal.words.isprintable()
        assert len(refusal.words) <= 240


@given(st.binary(max_size=200))
def test_any_body_is_a_refusal(body):
    assert read_refusal(400, body).reason.startswith("HTTP 400")


def test_the_key_is_in_no_words():
    body = json.dumps({"error": {"message": f"The key {KEY} may not"}}).encode()
    assert read_refusal(400, body, KEY).words == "The key … may not"


def test_a_long_text_is_cut():
    assert one_line("tea\x1b[31m\n " * 100, 20) == "tea [31m tea [31m t…"


def test_refusals_of_one_requests_text_are_no_reason_to_stop():
    first = FirstRefusals()
    long = Refusal("HTTP 400: too long for the endpoint", of_one_request=True)
    assert not any(first.add(long) for _ in range(100))
    assert [first.add(Refusal("HTTP 400")) for _ in range(FIRST)] == [False] * (FIRST - 1) + [True]
    mixed = FirstRefusals()
    assert not any(mixed.add(Refusal(f"HTTP {400 + 22 * (k % 2)}")) for k in range(100))


def asked(status_of, n=100, **settings):
    sent = []

    async def answer(path, body):
        sent.append(number(body))
        status = status_of(number(body))
        said = {"error": {"message": f"no {KEY}", "param": "seed"}}
        return ok() if status == 200 else HttpResponse(status, {}, json.dumps(said).encode())

    asking = client(FunctionWire(answer), FastClock(), **settings)
    return sent, asking, asking.ask(post(k) for k in range(n))


def test_requests_that_are_all_refused_end_after_at_most_sixteen():
    sent, asking, outcomes = asked(lambda k: 400)
    with pytest.raises(AllRefused, match=r"the first 8 requests were all refused: HTTP 400"):
        list(outcomes)
    assert len(sent) <= 16
    assert asking._concurrency.active == asking.ledger._under_way == 0


def test_a_client_that_was_stopped_asks_again_when_it_is_asked_again():
    refused = {"now": True}
    _, asking, outcomes = asked(lambda k: 400 if refused["now"] else 200, n=9)
    with pytest.raises(AllRefused):
        list(outcomes)
    refused["now"] = False
    assert all(one.value == 1 for _, one in asking.ask(post(k) for k in range(9)))


def test_refusals_after_a_success_or_too_few_are_each_rows_own(caplog, monkeypatch):
    monkeypatch.setenv("PALATE_API_KEY", KEY)
    _, _, outcomes = asked(lambda k: 200 if k == 0 else 400, concurrency=1)
    found = dict(outcomes)
    assert len(found) == 100
    assert sum(one.failure == "HTTP 400 (seed)" for one in found.values()) == 99
    assert not caplog.records
    caplog.set_level(logging.WARNING)
    _, _, outcomes = asked(lambda k: 400, n=3)
    assert [one.outage for _, one in outcomes] == [False] * 3
    (said,) = caplog.messages
    assert said.endswith("HTTP 400 (seed); the server says: no …")


def test_outages_are_no_refusals():
    _, _, outcomes = asked(lambda k: 500, n=20, retries=0)
    assert all(one.outage for _, one in outcomes)


def test_what_a_spent_account_says_ends_everything_at_once():
    async def answer(path, body):
        sent.append(body)
        return HttpResponse(429, {"Retry-After": "1"}, b'{"error": {"code": "insufficient_quota"}}')

    sent = []
    with pytest.raises(EndpointError, match=r"HTTP 429, insufficient_quota"):
        list(client(FunctionWire(answer), FastClock(), concurrency=2).ask(map(post, range(50))))
    assert len(sent) <= 2
