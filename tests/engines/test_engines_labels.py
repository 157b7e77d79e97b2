"""Labels among listed log-probabilities: what is not listed is bounded, or nothing is said."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints import ScriptedChat
from palate.engines import EndpointLanguageModel, Reply
from palate.engines.endpoint_scores import CERTAIN, FORMS
from palate.engines.http_refusals import Refusal
from palate.engines.http_requests import HttpSettings, UnusableReply
from palate.records import Message

PROMPT = (Message(role="user", content="A or B?"),)
LABELS = ("A", "B")
OTHERS = [f"w{k}" for k in range(8)]


def read(listed, labels=LABELS):
    chat = ScriptedChat(lambda ask: Reply("x", first_token=listed))
    chat.settings = HttpSettings(model="m", base_url="http://127.0.0.1:9/v1")
    ((_, _, reply),) = EndpointLanguageModel(chat).label_logits([[PROMPT]], labels)
    return reply


@given(logits=st.lists(st.floats(-16, 4), min_size=10, max_size=10), listed=st.integers(2, 10))
def test_a_margin_beside_an_unlisted_label_is_a_lower_bound_with_the_right_sign(logits, listed):
    top = math.log(sum(map(math.exp, logits)))
    true = dict(zip([*LABELS, *OTHERS], (x - top for x in logits), strict=True))
    first = sorted(true, key=true.__getitem__, reverse=True)[:listed]
    reply = read({token: true[token] for token in first})
    margin = true["A"] - true["B"]
    if reply.failure is not None:
        mass = sum(math.exp(true[label]) for label in LABELS if label in first)
        alone = [label for label in LABELS if label in first]
        undecided = len(alone) == 1 and true[alone[0]] <= true[first[-1]]
        assert not alone or mass < 1e-6 or undecided
        return
    found = reply.labels[0] - reply.labels[1]
    if set(LABELS) <= set(first):
        assert found == pytest.approx(margin)
    else:
        assert found != 0
        assert math.copysign(1, found) == math.copysign(1, margin)
        assert abs(found) <= abs(margin) + 1e-6


def test_the_surest_judge_is_scored():
    listed = {"A": -0.0001, "The": -9.5, "I": -11.0, "**": -12.25}
    assert read(listed).labels == pytest.approx((-0.0001, -12.25))
    assert read({"B": -1e-7}).labels[1] > read({"B": -1e-7}).labels[0], "one token alone is listed"


@pytest.mark.parametrize("never", [float("-inf"), -9999.0, float("nan")])
def test_what_cannot_be_is_as_unlisted(never):
    assert read({"A": -0.1, "B": never, "The": -4.0}).labels == pytest.approx((-0.1, -4.0))
    assert read({"A": never, "B": never, "The": -0.1}).failure.startswith("unreadable: label A")


@pytest.mark.parametrize("mark", ["▁", "Ġ", " ", "\n", "Ċ"])
def test_marks_of_a_words_beginning_are_no_part_of_a_label(mark):
    reply = read({f"{mark}A": -0.5, f"{mark}B": -1.5, "x": -3.0})
    assert reply.labels == pytest.approx((-0.5, -1.5))


def test_labels_that_the_model_does_not_answer_with_are_unscored():
    reply = read({"<think>": -0.00001, "A": -17.0, "B": -18.0})
    assert reply.failure.startswith("unreadable: the labels have less than a millionth")
    assert reply.labels is None


def test_a_listed_label_that_an_unlisted_one_may_equal_is_unscored():
    reply = read({"x": -0.5, "y": -1.5, "A": -3.0})
    assert reply.failure == (
        "unreadable: label B is not among the first token's alternatives, and may be as probable"
    )


def test_digits_are_averaged_only_where_unlisted_ones_cannot_matter():
    digits = ("1", "2", "3")
    sure = read({"3": -0.00001, "2": -12.0}, digits)
    assert sure.labels == pytest.approx((-12.0, -12.0, -0.00001))
    unsure = read({"3": -0.7, "2": -0.8, "x": -3.5}, digits)
    assert unsure.failure.startswith("unreadable: label 1 is not among")


def test_the_first_prompt_shows_how_many_alternatives_a_server_lists():
    words = "top_logprobs must be between 0 and 8, not 20"
    refusal = Refusal("HTTP 400 (top_logprobs)", field="top_logprobs", words=words)

    def answer(ask):
        if ask.top_logprobs > 8:
            return Reply(failure=refusal.reason, refusal=refusal)
        return Reply("A", first_token={"A": -0.1, "B": -2.5})

    chat = ScriptedChat(answer)
    chat.settings = HttpSettings(model="m", base_url="http://127.0.0.1:9/v1")
    model = EndpointLanguageModel(chat)
    for _ in range(2):
        found = {(k, j): r.labels for k, j, r in model.label_logits([[PROMPT] * 2] * 2, LABELS)}
        assert set(found) == {(0, 0), (0, 1), (1, 0), (1, 1)}
        assert set(found.values()) == {(-0.1, -2.5)}
    assert [ask.top_logprobs for ask in chat.asks] == [20] + [8] * 8


def prompt_reply(form, ids, values):
    if form == "echo":
        logprobs = {"token_logprobs": [None, *values]}
        return {"choices": [{"text": "", "finish_reason": "length", "logprobs": logprobs}]}
    listed = [None, *({str(k): {"logprob": v}} for k, v in zip(ids[1:], values, strict=True))]
    return {"choices": [{"text": "", "finish_reason": "length", "prompt_logprobs": listed}]}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("zeros", "others", "refused"),
    [
        (CERTAIN, 1, True),
        (CERTAIN, CERTAIN - 1, True),
        (CERTAIN, CERTAIN, False),
        (CERTAIN - 1, 0, False),
    ],
)
def test_a_response_of_certain_tokens_alone_is_no_models(form, zeros, others, refused):
    values = [0.0] * zeros + [-1.5] * others
    ids = list(range(len(values) + 1))
    completion = prompt_reply(form, ids, values)
    if refused:
        with pytest.raises(UnusableReply, match="exactly 0, as behind a sampler"):
            FORMS[form].read(ids, 1, completion)
    else:
        assert FORMS[form].read(ids, 1, completion) == tuple(values)
