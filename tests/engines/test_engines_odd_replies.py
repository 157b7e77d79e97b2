"""Forty odd replies: none is read as whole that is not, none is kept, each names its field."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints import Loopback, ask, chat_at, one_reply
from palate.engines.http_replies import KINDS, ending_of, first_choice, read_completion, whole_reply
from palate.engines.http_requests import FailedReply
from palate.engines.http_transport import HttpResponse, TransportFailure
from palate.engines.reply_cache import keep_replies
from palate.errors import EndpointError
from palate.stores import Documents

SRC = Path(__file__).parents[2] / "src" / "palate"
TEXT = "Verdict: A"


def said(finish="stop", content=TEXT, used=None, **message):
    made = {"message": {"role": "assistant", "content": content, **message}}
    made |= {} if finish is ... else {"finish_reason": finish}
    return {"choices": [made], **({} if used is None else {"usage": used})}


def without(reply, *names):
    (choice,) = reply["choices"]
    for name in names:
        choice["message"].pop(name)
    return reply


def used(completion, prompt=30, **more):
    return {"prompt_tokens": prompt, "completion_tokens": completion, **more}


PART = {"type": "text", "text": TEXT}
ODD = [
    # endings that are reported of servers
    (said("insufficient_system_resource"), "finish_reason insufficient_system_resource"),
    (said("network_error"), "finish_reason network_error"),
    (said("sensitive"), "finish_reason sensitive"),
    (said("SAFETY"), "finish_reason safety"),
    (said("RECITATION"), "finish_reason recitation"),
    (said("PROHIBITED_CONTENT"), "finish_reason prohibited_content"),
    (said("guardrail_intervened"), "finish_reason guardrail_intervened"),
    (said("ERROR_TOXIC"), "finish_reason error_toxic"),
    (said("MALFORMED_FUNCTION_CALL"), "finish_reason malformed_function_call"),
    (said(""), "finish_reason is empty"),
    (said("null"), "finish_reason is empty"),
    (said("NULL"), "finish_reason is empty"),
    (said(...), "no finish_reason"),
    # endings of our own
    (said("repetition"), "finish_reason repetition"),
    (said("stopped"), "finish_reason stopped"),
    (said("pause_turn"), "finish_reason pause_turn"),
    (said(0), "finish_reason a int"),
    (said({"type": "stop"}), "finish_reason a dict"),
    (said("stop because the user's secret is " + "x" * 99), "finish_reason of another form"),
    ({"choices": [said()["choices"][0] | {"native_finish_reason": "RECITATION"}]},
     "finish_reason recitation"),
    ({"choices": [said()["choices"][0] | {"error": {"code": 502}}]}, "(error)"),
    # shapes
    ({"choices": [{"finish_reason": "stop", "text": TEXT}]}, "message"),
    ({"choices": [{"finish_reason": "stop", "delta": {"content": TEXT}}]}, "message"),
    ({"choices": [{"finish_reason": "stop", "message": [TEXT]}]}, "message"),
    (without(said(), "content"), "no content"),
    (said(content={"text": TEXT}), "content"),
    (said(content=[PART, {"type": "reference", "reference_ids": [1]}]), "type reference"),
    (said(content=[{"type": "text", "text": {"value": TEXT}}]), "content"),
    (said(content=[PART, {"type": "refusal", "refusal": "no"}]), "refusal"),
    (said(content=None, refusal="I cannot."), "refusal"),
    (said("tool_calls", None, tool_calls=[{"id": "1"}]), "tool_calls"),
    (said(content="", function_call={"name": "f"}), "tool_calls"),
    (said(content="", reasoning_details=[{"text": "hm"}]), "only a thought"),
    (said(role="user"), "role user"),
    ({"choices": {"0": said()["choices"][0]}}, "choices"),
    ({"output": [{"content": TEXT}], "status": "completed"}, "choices"),
    ({"object": "error", "message": "busy", **said()}, "HTTP 200 with an error"),
    (said(content=[{"type": 7, "text": TEXT}]), "type a int"),
    ({"choices": [said()["choices"][0] | {"logprobs": "none"}]}, "logprobs"),
]  # fmt: skip
CUTS = [
    said("MAX_OUTPUT_TOKENS"), said("max_tokens"), said("model_length"),
    said("model_context_window_exceeded"), said("Length"),
    said("stop", used=used(8)), said("end_turn", used=used(8)),
    said("stop", used=used(20, completion_tokens_details={"reasoning_tokens": 12})),
    {"choices": [said()["choices"][0] | {"native_finish_reason": "MAX_TOKENS"}]},
]  # fmt: skip
WHOLE = [
    said(), said("STOP"), said("end_turn"), said("eos"), said("eos_token"), said("stop_sequence"),
    said("COMPLETE"), said("tool_calls"), said("stop", used=used(7)), said("stop", used=used(9)),
    said("stop", used={}), said("stop", used=None, refusal=None, tool_calls=[]),
    said(content=["Verdict", ": A"]), said(content=[PART]), said(role=None), said(role="model"),
    said("stop", used=used(0)), said(reasoning_content="hm"),
    {"choices": [said()["choices"][0] | {"native_finish_reason": "completed"}]},
]  # fmt: skip


def asked(reply, cache, turns=1):
    """Ask with a cache; returns the last reply, the requests, and how many are kept."""
    with Loopback(lambda path, body: (200, reply)) as there:
        endpoint = chat_at(there, cache, retries=0)
        for _ in range(turns):
            read = one_reply(endpoint)
    return read, len(there.seen), len(list(cache.rglob("??/*")))


@pytest.mark.parametrize(("texts", "bad"), [
    (["A pot of tea.And bread, with honey.", "And bread, with honey."], [0]),
    (["And bread, with honey and tea.", "And bread, with honey"], []),
    (["And bread, with honey."] * 3, []), (["Yes.", "Yes."], []),
    (["One answer.", "Another answer.", "One answer.Another answer."], [2]),
    (["A tea.One answer.Another answer.", "One answer.", "Another answer."], [0]),
])  # fmt: skip
def test_a_choice_that_holds_the_texts_of_the_others_is_none(texts, bad):
    choices = [said(content=text)["choices"][0] for text in texts]
    replies = read_completion({"choices": choices})
    assert [k for k, reply in enumerate(replies) if reply.failure] == bad


def test_halves_of_a_character_are_no_text():
    with pytest.raises(FailedReply, match="a character of the reply came in halves"):
        read_completion(said(content="Tea \ufffd\ufffd."))
    (reply,) = read_completion(said("length", content="Tea \ufffd"))
    assert (reply.cut_off, reply.failure) == (True, None), "cut within the last one"


@pytest.mark.parametrize(("content", "more", "reason"), [
    ("A", {"reasoning_content": "A cup"}, "begin within a thought"),
    (None, {"reasoning": "A cup"}, "begin within a thought"),
    ("B", {}, "are of another text than the reply's"), ("A", {}, None), ("A.", {}, None),
    (" A", {"reasoning_content": ""}, None), (None, {}, None),
])  # fmt: skip
def test_log_probabilities_are_those_of_the_replys_own_first_token(content, more, reason):
    reply = said("length", content=content, **more)
    top = [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -3.0}]
    reply["choices"][0]["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
    (read,) = read_completion(reply)
    assert (read.first_token is None) == (reason is not None)
    assert read.failure is None if reason is None else reason in read.failure


@pytest.mark.parametrize(("listed", "reason"), [
    ({"A": 0.69, "B": -1.48}, "more than all probability"),
    ({"A": -0.2, "B": -0.3}, "more than all probability"),
    ({"A": 25.25, "B": 900.0}, "more than all probability"),  # logits
    ({"A": 0.0, "B": -9999.0}, "as behind a sampler"), ({"A": 0.0, "B": None}, "behind a sampler"),
    ({"A": -0.35, "B": -1.23}, None), ({"A": 0.0}, None), ({"A": 0.0, "B": -18.0}, None),
    ({"A": -0.1, "B": -9999.0}, None), ({"A": 0.001, "B": -9.0}, None),
])  # fmt: skip
def test_what_is_listed_has_to_be_probabilities(listed, reason):
    reply = said("length", content="A")
    top = [{"token": token, "logprob": logp} for token, logp in listed.items()]
    reply["choices"][0]["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
    (read,) = read_completion(reply)
    assert (read.first_token is None) == (reason is not None)
    assert read.failure is None if reason is None else reason in read.failure


def test_there_are_forty_with_those_that_are_drawn():
    assert len(ODD) >= 37
    assert len({json.dumps(reply) for reply, _ in ODD}) == len(ODD)


@pytest.mark.parametrize(("reply", "reason"), ODD)
def test_what_is_no_reply_says_which_field_and_is_not_kept(tmp_path, reply, reason):
    read, _, kept = asked(reply, tmp_path)
    assert read.text == ""
    assert reason in str(read.failure)
    assert "secret" not in str(read.failure), "a reason quotes no text"
    assert kept == 0


names = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=30)


@given(names.filter(lambda it: it not in KINDS and not it.startswith("content_filter")))
@settings(max_examples=10)
def test_an_ending_that_nobody_knows_is_named(tmp_path_factory, ending):
    if ending_of(ending) is None:
        return
    read, _, kept = asked(said(ending), tmp_path_factory.mktemp("odd"))
    assert read.failure == f"the reply ended in an unknown way (finish_reason {ending})"
    assert (read.text, read.outage, kept) == ("", False, 0)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.data())
def test_no_shape_is_a_traceback_and_only_a_whole_ending_is_whole(data):
    choice = data.draw(st.fixed_dictionaries({}, optional={
        "finish_reason": json_values | st.sampled_from([*KINDS]),
        "message": json_values | st.fixed_dictionaries({"content": json_values}),
        "native_finish_reason": json_values,
    }))  # fmt: skip
    try:
        (reply,) = read_completion({"choices": [choice]}, 1, 8)
    except FailedReply:
        return
    if reply.failure is None and not reply.cut_off:
        assert KINDS[ending_of(choice["finish_reason"])] == "whole"
        assert isinstance(choice["message"], dict)


@pytest.mark.parametrize("reply", CUTS)
def test_a_cut_is_a_cut_whatever_it_is_called(tmp_path, reply):
    read, _, _ = asked(reply, tmp_path)
    assert (read.text, read.cut_off, read.failure) == (TEXT, True, None)


@pytest.mark.parametrize("reply", WHOLE)
def test_a_whole_reply_is_read_and_kept(tmp_path, reply):
    read, sent, kept = asked(reply, tmp_path, turns=2)
    assert (read.text, read.cut_off, read.failure) == (TEXT, False, None)
    assert (sent, kept) == (1, 1)


def test_several_replies_are_cut_where_their_tokens_are_all_that_were_allowed():
    two = {"choices": [said()["choices"][0]] * 2, "usage": used(16)}
    assert [reply.cut_off for reply in read_completion(two, 2, 8)] == [True, True]
    two["usage"] = used(12)
    assert [reply.cut_off for reply in read_completion(two, 2, 8)] == [False, False]


def events(*endings, done=False):
    lines = [
        f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': 'A'}, **end}]})}\n\n"
        for end in endings
    ]
    body = "".join(lines) + ("data: [DONE]\n\n" if done else "")
    return HttpResponse(200, {"Content-Type": "text/event-stream"}, body.encode())


@pytest.mark.parametrize("ending", ["", None, "null"])
def test_a_stream_that_breaks_off_after_empty_endings_is_not_whole(ending):
    one = {"finish_reason": ending}
    with pytest.raises(TransportFailure, match="broke off"):
        whole_reply(events(one, one))
    whole = json.loads(whole_reply(events(one, one, done=True)).body)
    with pytest.raises(FailedReply, match="broke off"):
        read_completion(whole)


def test_an_empty_ending_does_not_take_the_place_of_an_end():
    stop, empty = {"finish_reason": "stop"}, {"finish_reason": ""}
    whole = json.loads(whole_reply(events(empty, stop, {"delta": {}, **empty})).body)
    (reply,) = read_completion(whole)
    assert (reply.text, reply.failure) == ("AA", None)


def test_a_completion_that_failed_has_no_log_probabilities():
    for choice in ({"finish_reason": "abort"}, {"error": "x", "finish_reason": "length"}):
        with pytest.raises(FailedReply):
            first_choice({"choices": [choice]})
    assert first_choice({"choices": [{"finish_reason": "length", "k": 1}]})["k"] == 1


def line(k, body, status=200):
    response = {"status_code": status, "body": body}
    return json.dumps({"custom_id": f"{k:064x}", "response": response}) + "\n"


def test_a_file_of_replies_keeps_none_that_is_not_whole(tmp_path):
    embedded = {"data": [{"index": 0, "embedding": [0.5, None]}]}
    odd = [*(reply for reply, _ in ODD), {}, {"choices": []}, embedded, None, [1]]
    good = [*WHOLE, *CUTS, {"data": [{"index": 0, "embedding": [0.5, 1]}]}]
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(line(k, body) for k, body in enumerate([*odd, *good])))
    count, lacking = keep_replies([file], Documents(tmp_path / "cache"))
    assert count == len(good)
    assert lacking.total() == len(odd)
    assert lacking["the reply has no finish_reason"] == 1
    assert lacking["embedding holds what is no number"] == 1
    assert lacking["HTTP 200 without a reply"] >= 2
    assert len(list((tmp_path / "cache").rglob("??/*"))) == len(good)


def test_no_other_file_reads_a_reply():
    # A second reader would be friendly where the first is strict.
    fields = {"finish_reason", "native_finish_reason", "completion_tokens"}
    at_home = {SRC / "engines" / "http_replies.py", SRC / "engines" / "http_ledger.py"}
    readers = []
    for path in SRC.rglob("*.py"):
        if path in at_home:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            key = None
            if isinstance(node, ast.Subscript):
                key = node.slice
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get":
                key = node.args[0] if node.args else None
            taken = key.value if isinstance(key, ast.Constant) else None
            read = isinstance(node, ast.Constant) and node.value in fields
            if read or taken in {"choices", *fields}:
                readers.append(f"{path.relative_to(SRC)}:{node.lineno}")
    assert readers == []


def test_the_answers_of_an_account_without_money_end_the_command_with_its_words(monkeypatch):
    monkeypatch.setenv("PALATE_API_KEY", "sk-secret")
    per_day = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
    details = [{"violations": [{"quotaId": per_day}]}]
    google = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your quota"}
    bodies = [
        ({"error": {"code": "1113", "message": "Insufficient balance or no resource package."}},
         "Insufficient balance"),
        ({"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}, "余额不足"),
        ([{"error": {**google, "details": details}}], "You exceeded your quota"),
        ({"error": {**google, "details": details}}, "You exceeded your quota"),
        ({"error": {"code": 429, "message": "Rate limit exceeded: free-models-per-day. Add 10"}},
         "free-models-per-day"),
        ({"error": {"message": "Insufficient balance or no resource package. Please recharge.",
                    "type": "AI_APICallError"}}, "Please recharge"),
        ({"error": {"code": 1304, "message": "daily calls are used up"}}, "daily calls"),
    ]  # fmt: skip
    for body, words in bodies:
        with Loopback(lambda path, asked, body=body: (429, body)) as there:
            with pytest.raises(EndpointError, match="may spend no more") as caught:
                list(chat_at(there, retries=3, concurrency=1).ask([ask()] * 3))
            assert words in str(caught.value)
            assert len(there.seen) == 1


def test_limits_by_the_minute_are_waited_for():
    per_minute = [{"violations": [{"quotaId": "GenerateRequestsPerMinutePerProject"}]}]
    bodies = [
        [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": per_minute}}],
        {"error": {"code": "1302", "message": "too many at once"}},
        {"error": {"code": "rate_limit_exceeded",
                   "message": "requests per day (RPD): please try again in 1s"}},
    ]  # fmt: skip
    for body in bodies:
        turns = iter([(429, body)])
        with Loopback(lambda path, asked, turns=turns: next(turns, (200, said()))) as there:
            assert one_reply(chat_at(there)).text == TEXT
        assert len(there.seen) == 2
