"""What chat endpoints reply: parts, thoughts, failures that come as HTTP 200, and the cache."""

from __future__ import annotations

import gzip
import json

import pytest

from endpoints import URL, FastClock, FunctionWire, Loopback, chat_at, one_reply
from palate.engines import Ask
from palate.engines.chat_endpoint import ChatEndpoint, SamplingRequest
from palate.engines.http_ledger import usage
from palate.engines.http_requests import HttpSettings
from palate.engines.http_transport import HttpResponse
from palate.engines.language_model import Sampling
from palate.errors import EndpointError
from palate.records import Message
from palate.session import Session

PROMPT = (Message(role="user", content="A or B?"),)


def choice(content="Verdict: A", finish="stop", **message):
    return {"message": {"content": content, **message}, "finish_reason": finish}


def completion(*choices, **more):
    return {"choices": list(choices), **more}


class Chat:
    """A chat endpoint whose replies come in turn, the last one for ever after."""

    def __init__(self, *replies, cache=None, retries=2, **settings):
        self.sent = []

        async def answer(path, body):
            self.sent.append(json.loads(body))
            said = replies[min(len(self.sent), len(replies)) - 1]
            said = said(self.sent[-1]) if callable(said) else said
            status, said = said if isinstance(said, tuple) else (200, said)
            return HttpResponse(status, {}, json.dumps(said).encode())

        chosen = HttpSettings(model="m", base_url=URL, retries=retries, **settings)
        kept = None if cache is None else Session(cache=cache).replies
        self.endpoint = ChatEndpoint(
            chosen, transport=FunctionWire(answer), clock=FastClock(), replies=kept
        )

    def ask(self, **more):
        ((_, reply),) = self.endpoint.ask([Ask(PROMPT, 8, **more)])
        return reply

    def draw(self, n):
        how = Sampling(8, 1.0, 1.0, 0)
        drawn = self.endpoint.draw([SamplingRequest(PROMPT, tuple(range(n)), how)])
        return {number: reply for _, number, reply in drawn}


THOUGHT = [{"type": "text", "text": "A? Verdict: B"}]
PARTS = [
    ([{"type": "text", "text": "Verdict: A"}], "Verdict: A"),
    ([{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": "Verdict: A"}],
     "Verdict: A"),
    ([{"type": "reasoning", "text": "B!"}, {"type": "text", "text": "Because.\n"},
      {"type": "text", "text": "Verdict: A"}], "Because.\nVerdict: A"),
    ([{"type": "redacted_thinking", "data": "x"}, {"type": "output_text", "text": "Verdict: A"}],
     "Verdict: A"),
    (["Verdict", ": A"], "Verdict: A"),
    ([], ""),
]  # fmt: skip


@pytest.mark.parametrize(("content", "text"), PARTS)
def test_the_texts_of_a_list_of_parts_are_joined_without_its_thoughts(content, text):
    chat = Chat(completion(choice(content)))
    reply = chat.ask()
    assert (reply.text, reply.failure) == (text, None)
    assert len(chat.sent) == 1, "a well-formed reply is not asked for again"


THOUGHTS = [
    choice("", reasoning_content="Verdict: A"),
    choice(None, reasoning_content="Verdict: A"),
    choice(" \n", reasoning="Verdict: A"),
    choice([{"type": "thinking", "thinking": THOUGHT}]),
]


@pytest.mark.parametrize("said", THOUGHTS)
def test_a_thought_alone_is_said_so_is_asked_once_and_is_not_kept(tmp_path, said):
    chat = Chat(completion(said), cache=tmp_path)
    for turn in (1, 2):
        reply = chat.ask()
        assert (reply.text, reply.failure) == ("", "only a thought came back")
        assert not reply.outage
        assert len(chat.sent) == turn


@pytest.mark.parametrize("content", [5, {"text": "Verdict: A"}, True])
def test_content_of_another_kind_is_no_text_and_is_asked_once(content):
    chat = Chat(completion(choice(content)))
    assert chat.ask().failure == "the reply's content is no text"
    assert len(chat.sent) == 1


def test_a_thought_that_is_cut_off_is_cut_off_so_that_it_is_asked_with_more_room():
    said = choice(None, "length", reasoning_content="Let me see")
    reply = Chat(completion(said)).ask()
    assert (reply.cut_off, reply.failure) == (True, None)


FAILURES = [
    completion(choice("Verdict: A", "error")),
    completion(choice("Verdict: A", "abort")),
    completion({**choice("Verdict: A", None), "error": {"code": 502, "message": "upstream"}}),
    completion(choice("Verdict: A", None)),
    completion(),
    {"choices": None},
    completion(choice("Verdict: A"), error={"message": "overloaded"}),
    {"error": {"code": 500, "message": "the engine died"}},
    {"error": {"message": "the engine died", "type": "server_error"}},
    {"error": "the engine died"},
]


@pytest.mark.parametrize("said", FAILURES)
def test_a_server_that_failed_within_http_200_is_an_outage_that_is_never_kept(tmp_path, said):
    chat = Chat(said, cache=tmp_path)
    reply = chat.ask()
    assert (reply.text, reply.outage) == ("", True)
    assert len(chat.sent) == 3, "it is asked again, as after HTTP 500"
    assert not list(tmp_path.rglob("??/*"))
    chat = Chat(said, completion(choice("Verdict: B")), cache=tmp_path)
    assert chat.ask().text == "Verdict: B"


@pytest.mark.parametrize("said", [*(completion(each) for each in THOUGHTS), *FAILURES])
def test_a_cache_that_holds_a_failed_reply_does_not_serve_it(tmp_path, said):
    filled = Chat(completion(choice()), cache=tmp_path)
    filled.ask()
    (kept,) = tmp_path.rglob("??/*")
    Session(cache=tmp_path).replies.put(kept.name, json.dumps(said).encode())
    chat = Chat(completion(choice("Verdict: B")), cache=tmp_path)
    assert chat.ask().text == "Verdict: B"
    assert len(chat.sent) == 1
    assert chat.ask().text == "Verdict: B"
    assert len(chat.sent) == 1, "the whole reply took its place"


def test_an_error_of_the_request_within_http_200_is_a_refusal():
    chat = Chat({"error": {"code": 400, "message": "'temperature' is not for this model"}})
    reply = chat.ask()
    assert (reply.failure, reply.outage) == ("HTTP 400 (temperature)", False)
    assert len(chat.sent) == 1


@pytest.mark.parametrize("finish", ["content_filter", "content_filter: SAFETY"])
def test_a_filtered_sample_beside_a_whole_one_is_failed_and_neither_is_kept(tmp_path, finish):
    chat = Chat(completion(choice("Tea."), choice("Co", finish)), cache=tmp_path)
    replies = chat.draw(2)
    assert replies[0].text == "Tea."
    named = f"(finish_reason {finish.lower()})"
    assert replies[1].failure == f"refused by the endpoint's content filter {named}"
    assert not list(tmp_path.rglob("??/*"))


def test_samples_in_which_the_server_failed_are_asked_for_alone():
    chat = Chat(
        completion(choice("Tea."), choice("Co", "error"), choice("Milk.")),
        completion(choice("Coffee.")),
    )
    assert {k: reply.text for k, reply in chat.draw(3).items()} == {
        0: "Tea.", 1: "Coffee.", 2: "Milk.",
    }  # fmt: skip
    assert [body.get("n") for body in chat.sent] == [3, None]


def test_where_a_server_refuses_several_replies_at_once_each_is_asked_for_alone():
    def answer(body):
        error = {"message": "n must be 1", "param": "n"}
        return (400, {"error": error}) if body.get("n", 1) > 1 else completion(choice("Tea."))

    chat = Chat(answer)
    prompts = [(Message(role="user", content=f"A or B, {k}?"),) for k in range(40)]
    how = Sampling(8, 1.0, 1.0, 0)
    asked = [SamplingRequest(prompt, (0, 1), how) for prompt in prompts]
    drawn = list(chat.endpoint.draw(asked))
    assert {(k, number) for k, number, _ in drawn} == {(k, j) for k in range(40) for j in (0, 1)}
    assert all(reply.text == "Tea." for _, _, reply in drawn)
    assert sum("n" in body for body in chat.sent) <= 16
    assert sum("n" not in body for body in chat.sent) == 80


def test_where_every_sample_is_refused_for_another_field_no_more_are_asked_for():
    chat = Chat((400, {"error": {"message": "top_p is unknown", "param": "top_p"}}))
    how = Sampling(8, 1.0, 1.0, 0)
    with pytest.raises(EndpointError, match=r"\(top_p\)"):
        list(chat.endpoint.draw([SamplingRequest(PROMPT, (0, 1), how)] * 40))
    assert len(chat.sent) <= 16


@pytest.mark.parametrize("missing", [{"usage": None}, {"usage": {"prompt_tokens": None}}, {}])
def test_a_reply_without_usage_or_log_probabilities_is_read(missing):
    chat = Chat(completion({**choice(), "logprobs": None}, **missing), price_in=1, price_out=1)
    reply = chat.ask()
    assert (reply.text, reply.first_token) == ("Verdict: A", None)
    assert chat.endpoint.client.ledger.spent > 0, "what is not said is charged in full"


def test_an_alternative_without_a_number_is_not_listed_and_one_that_cannot_be_is():
    top = [
        {"token": "A", "logprob": -0.1},
        {"token": "B", "logprob": None},
        {"token": "C", "logprob": "-inf"},
    ]
    said = {**choice("A"), "logprobs": {"content": [{"token": "A", "top_logprobs": top}]}}
    assert Chat(completion(said)).ask(top_logprobs=20).first_token == {
        "A": -0.1, "C": float("-inf"),
    }  # fmt: skip


def test_a_compressed_reply_is_read():
    body = gzip.compress(json.dumps(completion(choice())).encode())
    with Loopback(lambda path, sent: (200, body, {"Content-Encoding": "gzip"})) as there:
        assert one_reply(chat_at(there)).text == "Verdict: A"


def test_no_temperature_is_sent_where_the_endpoint_has_its_own():
    chat = Chat(completion(choice()), sends_temperature=False)
    chat.ask()
    chat.draw(1)
    assert all(not {"temperature", "top_p"} & body.keys() for body in chat.sent)
    chat = Chat(completion(choice()))
    chat.ask()
    assert chat.sent[0]["temperature"] == 0


@pytest.mark.parametrize(("used", "tokens"), [
    ({"completion_tokens": 5, "total_tokens": 435}, (30, 405)),
    ({"completion_tokens": 405, "total_tokens": 435}, (30, 405)),
    ({"completion_tokens": 5, "total_tokens": 7}, (30, 5)), ({"completion_tokens": 5}, (30, 5)),
])  # fmt: skip
def test_a_thought_that_only_the_total_holds_is_written_and_paid_for(used, tokens):
    assert usage({"usage": {"prompt_tokens": 30, **used}}) == tokens
