"""Replies that come piece by piece: no time-out while bytes come, and the same reply."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints import FunctionWire, Loopback, ask, chat_at, client, ok, post, run_virtually
from palate.engines.chat_endpoint import SamplingRequest
from palate.engines.http_ledger import Ledger
from palate.engines.http_replies import NoStream, read_completion, whole_reply
from palate.engines.http_requests import FailedReply, body_of
from palate.engines.http_transport import HttpResponse, TransportFailure
from palate.engines.language_model import Sampling

EVENTS = {"Content-Type": "text/event-stream; charset=utf-8"}
ABOUT = {"id": "chatcmpl-1", "created": 1, "model": "m"}
USAGE = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}


def line(event):
    return f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n"


def chunk(*choices, **more):
    return {**ABOUT, "object": "chat.completion.chunk", "choices": list(choices), **more}


def delta(text, index=0, finish=None, **more):
    return {"index": index, "delta": {"content": text}, "finish_reason": finish, **more}


def stream_of(completion, cut):
    """The chunks that a server would send of a completion, its texts cut into pieces."""
    yield chunk(*(
        {"index": c["index"], "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        for c in completion["choices"]
    ))  # fmt: skip
    for choice in completion["choices"]:
        text = choice["message"]["content"]
        tokens = (choice.get("logprobs") or {}).get("content") or []
        pieces = [text[k : k + cut] for k in range(0, len(text), cut)]
        for k in range(max(len(pieces), len(tokens))):
            told = {"logprobs": {"content": [tokens[k]]}} if k < len(tokens) else {}
            yield chunk(delta(pieces[k] if k < len(pieces) else "", choice["index"], **told))
        end = {"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]}
        yield chunk(end)
    yield chunk(usage=completion["usage"])


texts = st.text(max_size=40)
choices = st.lists(
    st.tuples(texts, st.sampled_from(["stop", "length", "content_filter"]), st.integers(0, 3)),
    min_size=1,
    max_size=4,
)


@given(choices=choices, cut=st.integers(1, 7), newline=st.sampled_from(["\n", "\r\n", "\r"]))
@settings(max_examples=60)
def test_a_stream_gives_the_reply_that_one_piece_would(choices, cut, newline):
    def token(k):
        top = [{"token": f"t{k}", "logprob": -0.5}, {"token": "u", "logprob": -2.0}]
        return {"token": f"t{k}", "logprob": -0.5, "bytes": [97], "top_logprobs": top}

    completion = {
        **ABOUT, "object": "chat.completion", "usage": USAGE,
        "choices": [
            {
                "index": k, "message": {"role": "assistant", "content": text},
                "finish_reason": finish,
                **({"logprobs": {"content": [token(j) for j in range(n)]}} if n else {}),
            }
            for k, (text, finish, n) in enumerate(choices)
        ],
    }  # fmt: skip
    sent = "".join(
        ": still here\n\ndata:\n\n" + line(event) for event in stream_of(completion, cut)
    )
    body = (sent + line("[DONE]")).replace("\n", newline).encode()
    whole = whole_reply(HttpResponse(200, EVENTS, body))
    assert json.loads(whole.body) == completion


def test_thoughts_and_lists_of_parts_are_put_together():
    sent = [
        chunk({"index": 0, "delta": {"role": "assistant", "reasoning_content": "Hm"}}),
        chunk({"index": 0, "delta": {"reasoning_content": ", tea"}}),
        chunk(delta([{"type": "thinking", "thinking": "x"}])),
        chunk(delta("Ver")),
        chunk(delta([{"type": "text", "text": "dict"}], finish="stop")),
        "[DONE]",
    ]
    whole = whole_reply(HttpResponse(200, EVENTS, "".join(map(line, sent)).encode()))
    (choice,) = json.loads(whole.body)["choices"]
    assert choice["message"] == {
        "role": "assistant", "reasoning_content": "Hm, tea",
        "content": [
            {"type": "thinking", "thinking": "x"}, {"type": "text", "text": "Ver"},
            {"type": "text", "text": "dict"},
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    "sent",
    [
        [chunk(delta("A"))],
        [chunk(delta("A")), "[DO"],
        [],
        [chunk(delta("A")), "7", "[DONE]"],
        [chunk({"index": "x", "delta": {}}), "[DONE]"],
    ],
)
def test_a_stream_that_breaks_off_is_no_reply(sent):
    with pytest.raises(TransportFailure):
        whole_reply(HttpResponse(200, EVENTS, "".join(map(line, sent)).encode()))


def test_bytes_that_are_no_text_are_no_reply():
    with pytest.raises(TransportFailure):
        whole_reply(HttpResponse(200, EVENTS, b"data: \xff\xfe\n\n"))


def test_an_error_within_a_stream_is_the_reply_that_it_would_be_in_one_piece():
    sent = [chunk(delta("A")), {"error": {"code": 500, "message": "out of memory"}}, "[DONE]"]
    whole = whole_reply(HttpResponse(200, EVENTS, "".join(map(line, sent)).encode()))
    assert json.loads(whole.body) == {"error": {"code": 500, "message": "out of memory"}}
    with pytest.raises(FailedReply):
        read_completion(json.loads(whole.body))


def test_a_refused_stream_is_told_from_another_refusal():
    with pytest.raises(NoStream):
        whole_reply(HttpResponse(422, {}, b'{"detail": "stream_options: extra fields"}'))
    for text in (b"too long", b"the upstream server refused"):
        other = HttpResponse(400, {}, b'{"error": {"message": "%s"}}' % text)
        assert whole_reply(other) == other


def plain(text, finish="stop", n=1):
    message = {"role": "assistant", "content": text}
    made = [{"index": k, "message": message, "finish_reason": finish} for k in range(n)]
    return {**ABOUT, "object": "chat.completion", "choices": made, "usage": USAGE}


def replies(endpoint, n, max_tokens=512):
    return dict(endpoint.ask([ask(f"{k}?", max_tokens) for k in range(n)]))


def streamed(completion, pause=0.0, cut=3, last="data: [DONE]"):
    for event in stream_of(completion, cut):
        time.sleep(pause)
        yield line(event)
    yield f"{last}\n\n"


def test_a_reply_of_many_silences_is_no_time_out_and_nothing_is_asked_twice():
    def answer(path, body):
        assert body["stream"] is True
        assert body["stream_options"] == {"include_usage": True}
        return 200, streamed(plain("Verdict: A, for it is warm."), pause=0.2)

    with Loopback(answer) as there:
        started = time.monotonic()
        found = replies(chat_at(there, timeout_s=0.8, concurrency=4), 4)
        assert time.monotonic() - started > 1.6, "two silences and more"
        assert {reply.text for reply in found.values()} == {"Verdict: A, for it is warm."}
        assert len(there.seen) == 4


def test_a_reply_that_stops_is_called_off_so_that_the_server_stops_its_work():
    def endless():
        yield line(chunk(delta("A")))
        time.sleep(0.6)
        for _ in range(200):
            time.sleep(0.02)
            yield line(chunk(delta("A")))

    with Loopback(lambda path, body: (200, endless())) as there:
        (reply,) = replies(chat_at(there, timeout_s=0.3, retries=0), 1).values()
        assert (reply.failure, reply.outage) == ("the reply stopped for 0.3 s", True)
        deadline = time.monotonic() + 10
        while not there.hung_up and time.monotonic() < deadline:
            time.sleep(0.02)
        assert there.hung_up == 1, "the server sees that nobody listens"


def test_replies_of_200_s_with_a_first_byte_after_1_s_are_asked_once():
    class SlowWire(FunctionWire):
        async def post(self, path, body, heard=lambda: None):
            sent.append(json.loads(body)["k"])
            await asyncio.sleep(1.0)
            for _ in range(199):
                heard()
                await asyncio.sleep(1.0)
            return ok()

    sent = []
    made = client(SlowWire(None))
    found = run_virtually(made, [post(k) for k in range(60)])
    assert all(outcome.value == 1 for outcome in found)
    assert sorted(sent) == list(range(60))
    assert made._concurrency.limit == made._concurrency.most >= 8


def test_the_cache_holds_the_whole_reply_under_the_key_of_the_request_without_a_stream(tmp_path):
    with Loopback(lambda path, body: (200, plain("Verdict: B"))) as there:
        whole = replies(chat_at(there, tmp_path / "whole"), 1)
        address = there.url
    (kept,) = [path for path in (tmp_path / "whole").rglob("*") if path.is_file()]

    def answer(path, body):
        return 200, streamed(plain("Verdict: B"))

    with Loopback(answer) as there:
        again = replies(chat_at(there, tmp_path / "stream"), 1)
        assert again == whole
        assert len(there.seen) == 1
        replies(chat_at(there, tmp_path / "stream"), 1)
        assert len(there.seen) == 1, "the second time it is there"
    (new,) = [path for path in (tmp_path / "stream").rglob("*") if path.is_file()]
    body = {
        "model": "m", "messages": [{"role": "user", "content": "0?"}], "max_tokens": 512,
        "temperature": 0,
    }  # fmt: skip
    for url, path in ((address, kept), (there.url, new)):
        assert path.name == key_of(f"{url}/v1/chat/completions", body_of(body))
    content = new.read_bytes().partition(b"\n")[2]
    assert json.loads(content) == plain("Verdict: B")


def key_of(url, body):
    return hashlib.sha256(url.encode() + b"\n" + body).hexdigest()


def test_short_replies_are_asked_for_in_one_piece():
    with Loopback(lambda path, body: (200, plain("A"))) as there:
        replies(chat_at(there), 3, max_tokens=127)
        assert not any("stream" in body for _, body in there.seen)


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_refuses_streams_is_asked_without_and_said_so_once(status, caplog):
    caplog.set_level(logging.INFO, "palate")

    def answer(path, body):
        if "stream" in body:
            return status, {"error": {"message": "'stream' is not supported", "code": None}}
        return 200, plain("Verdict: A")

    ledger = Ledger()
    with Loopback(answer) as there:
        found = replies(chat_at(there, ledger=ledger, retries=0, concurrency=2), 12)
        assert {reply.text for reply in found.values()} == {"Verdict: A"}
        assert len(there.seen) <= 16, "only those that were under way are asked again"
        more = len(there.seen)
        replies(chat_at(there, ledger=ledger), 3)
        assert len(there.seen) == more + 3, "a session remembers it"
    assert caplog.text.count("streams no replies") == 1
    assert "(?timeout=S)" in caplog.text


def test_a_server_that_answers_in_one_piece_all_the_same_is_believed(caplog):
    caplog.set_level(logging.INFO, "palate")
    with Loopback(lambda path, body: (200, plain("Verdict: A"))) as there:
        found = replies(chat_at(there, concurrency=1), 5)
        assert {reply.text for reply in found.values()} == {"Verdict: A"}
        assert ["stream" in body for _, body in there.seen] == [True, *(False,) * 4]
    assert caplog.text.count("streams no replies") == 1


def test_a_server_without_stream_options_that_never_says_done_streams_all_the_same():
    # `transformers serve` sends none.
    def answer(path, body):
        if "stream_options" in body:
            return 422, {"detail": "Unsupported fields in the request: {'stream_options'}"}
        return 200, streamed(plain("Verdict: A"), last=": the end")

    ledger = Ledger()
    with Loopback(answer) as there:
        asked = chat_at(there, ledger=ledger, concurrency=1, price_in=1.0, price_out=1.0)
        assert {reply.text for reply in replies(asked, 3).values()} == {"Verdict: A"}
        assert [body.get("stream") for _, body in there.seen] == [True] * 4
    assert ledger.spent == pytest.approx(3 * 16e-6)


@pytest.mark.parametrize("repeat", ["each piece holds the text so far", "the last holds all"])
def test_a_stream_that_repeats_itself_is_asked_for_in_one_piece_and_paid_for(repeat):
    text = "A pot of green tea.\n\nVerdict: A"

    def answer(path, body):
        if "stream" not in body:
            return 200, plain(text)
        pieces = [text[:k] for k in range(7, 40, 7)] if "so far" in repeat else [text[:9], text[9:]]
        sent = [chunk(delta(it)) for it in pieces]
        sent += [chunk(delta(text, finish="stop")), chunk(usage=USAGE), "[DONE]"]
        return 200, (line(event) for event in sent)

    ledger = Ledger()
    with Loopback(answer) as there:
        asked = chat_at(there, ledger=ledger, concurrency=1, price_in=1.0, price_out=1.0)
        assert {reply.text for reply in replies(asked, 3).values()} == {text}
        assert ["stream" in body for _, body in there.seen] == [True, False, False, False]
    assert ledger.spent > 4 * 16e-6 - 1e-9, "a reply that was not read is paid for too"


@pytest.mark.parametrize("same", [True, False])
def test_pieces_of_several_choices_under_one_index_are_asked_for_in_one_piece(same):
    def events():
        texts = ["Tea.", "Tea." if same else "Coffee, black."]
        for k in range(0, 16, 4):
            for text in texts:
                if k <= len(text):
                    yield delta(text[k : k + 4], finish="stop" if k + 4 > len(text) else None)

    sent = [line(chunk(it)) for it in events()] + [line("[DONE]")]
    with pytest.raises(NoStream) as refusal:
        whole_reply(HttpResponse(200, EVENTS, "".join(sent).encode()))
    assert refusal.value.answered


def test_a_text_that_repeats_itself_is_streamed():
    for text in ("ha" * 30, "tea and tea and tea and tea and", "no " * 9):
        for cut in (2, 3, 4, 8):
            sent = "".join(map(line, [*stream_of(plain(text), cut), "[DONE]"])).encode()
            whole = json.loads(whole_reply(HttpResponse(200, EVENTS, sent)).body)
            assert whole["choices"][0]["message"]["content"] == text


@pytest.mark.parametrize(("priced", "streams"), [({}, 3), ({"tpm": 10**6}, 1)])
def test_streams_without_usage_are_read_where_nothing_needs_it(priced, streams):
    def answer(path, body):
        if "stream_options" in body:
            return 400, {"error": {"message": "stream_options is unknown"}}
        if "stream" not in body:
            return 200, plain("Verdict: A")
        sent = (event for event in stream_of(plain("Verdict: A"), 3) if "usage" not in event)
        return 200, (line(event) for event in [*sent, "[DONE]"])

    with Loopback(answer) as there:
        found = replies(chat_at(there, concurrency=1, **priced), 3)
        assert {reply.text for reply in found.values()} == {"Verdict: A"}
        assert sum("stream" in body for _, body in there.seen) == 1 + streams
        assert len(there.seen) == 4


def test_a_stream_that_breaks_off_is_an_outage_and_paid_for(tmp_path):
    broken = [True]

    def answer(path, body):
        if broken[0]:
            return 200, iter([line(chunk(delta("Verdict: A")))])
        return 200, streamed(plain("Verdict: B"))

    with Loopback(answer) as there:
        ledger = Ledger()
        asked = chat_at(there, tmp_path, ledger=ledger, price_in=1.0, price_out=1.0)
        (reply,) = replies(asked, 1).values()
        assert (reply.text, reply.outage) == ("", True)
        assert reply.failure == "connection failed (the stream broke off)"
        assert len(there.seen) == 2
        assert ledger.spent > 2 * 512e-6, "what nothing is known of is charged in full"
        assert not [path for path in tmp_path.rglob("*") if path.is_file()], "never kept"
        broken[0] = False
        assert [reply.text for reply in replies(asked, 1).values()] == ["Verdict: B"]


def test_samples_are_told_apart_by_their_index():
    def answer(path, body):
        made = [plain(f"tea {k}")["choices"][0] | {"index": k} for k in range(body["n"])]
        return 200, streamed({**plain(""), "choices": made}, cut=1)

    how = Sampling(max_tokens=256, temperature=1.0, top_p=1.0, seed=0)
    draws = [SamplingRequest(ask().messages, (0, 1, 2), how)]
    with Loopback(answer) as there:
        drawn = {number: reply.text for _, number, reply in chat_at(there).draw(draws)}
        assert len(there.seen) == 1
    assert drawn == {0: "tea 0", 1: "tea 1", 2: "tea 2"}


def test_cost_and_limits_read_the_usage_of_a_stream():
    ledger = Ledger()
    with Loopback(lambda path, body: (200, streamed(plain("Verdict: A")))) as there:
        replies(chat_at(there, ledger=ledger, price_in=1.0, price_out=2.0), 3)
    assert ledger.spent == pytest.approx(3 * (11 + 2 * 5) / 1e6)
