"""The rubric judge over a scripted endpoint, a real socket, and a local model."""

from __future__ import annotations

import json
import re
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quality_rows import CHEAP, MILK, STRONG, check_order_changes_nothing, rated, row

from endpoints import FastClock, Loopback, ScriptedChat
from palate.engines import ChatEndpoint, Reply
from palate.errors import BenchmarkError, SpecError
from palate.quality import QualityScore, QuestionResponse, RubricJudge, rubric_judge
from palate.quality.rubric_judge import ReleasedJudge
from palate.records import Settings
from palate.session import default_session
from palate.specs import Spec

API = "rubric-judge:api:m?base_url=http://127.0.0.1:9/v1"
PAIR = row(STRONG, MILK)
ITEM = QuestionResponse(PAIR, "Assam, black.")


def scripted(answer, options=""):
    """Return a judge whose endpoint is a function, and the requests it will have got."""
    made = rubric_judge(Spec.parse(API + options), default_session(), Settings())
    place = made.answers if isinstance(made, RubricJudge) else made.writer
    place.model.endpoint = ScriptedChat(answer)
    return made, place.model.endpoint.asks


def expects(ask, aspect):
    return f"expects:\n  {aspect.aspect}" in ask.messages[0].content


def by_aspect(**ratings):
    """Answer each aspect by its first word."""

    def answer(ask):
        wanted = re.search(r"What this person expects:\n  (\w+)", ask.messages[0].content)
        return Reply(f"So it is.\nRating: {ratings[wanted.group(1)]}")

    return answer


def test_each_aspect_is_asked_about_by_itself_and_the_mean_is_halved():
    judge, asked = scripted(by_aspect(Strong=2, No=1, Under=0))
    (found,) = rated(judge, QuestionResponse(row(STRONG, MILK, CHEAP), "Assam, black."))
    assert (found.value, found.aspects) == (0.5, (1.0, 0.5, 0.0))
    assert (found.reason, found.outage) == (None, False)
    assert found.raw == tuple(f"So it is.\nRating: {n}" for n in (2, 1, 0))
    assert [[expects(ask, a) for a in (STRONG, MILK, CHEAP)] for ask in asked] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]


def test_the_judge_reads_question_narrative_response_reason_and_evidence_and_no_pair():
    judge, asked = scripted(lambda ask: Reply("Rating: 1"))
    rated(judge, ITEM)
    text = asked[0].messages[0].content
    read = (PAIR.text, PAIR.gold.narrative, ITEM.response, STRONG.reason, STRONG.evidence)
    assert all(f"\n  {piece}\n" in text for piece in read)
    assert "THE CHOSEN ONE" not in text
    assert "THE REJECTED ONE" not in text
    assert judge.prompts(ITEM)[0] == f"[user]\n{text}"


def test_what_all_aspects_of_a_response_share_stands_first():
    judge, asked = scripted(lambda ask: Reply("Rating: 1"))
    rated(judge, ITEM)
    first, second = (ask.messages[0].content for ask in asked)
    shared = next(k for k, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    assert first[:shared].endswith("What this person expects:\n  ")


UNREADABLE = {
    "": "empty reply",
    "I cannot tell.": "the last line is no rating",
    "It deserves a 2": "the last line is no rating",
    "[2, 2]": "the last line is no rating",
    "Rating: 2/2": "the last line is no rating",
    "Rating: 1.5": "the last line is no rating",
    "Rating: 3": "rating 3 is outside 0 to 2",
    "Rating: 2\nRating: 1": "more than one rating",
    "Rating: 2\nand 1 for the milk": "the last line is no rating",
    "<think>Rating: 2": "a thought that does not end",
}


@pytest.mark.parametrize(("text", "why"), UNREADABLE.items())
def test_an_unread_aspect_is_none_and_leaves_the_response_unscored(text, why):
    judge, _ = scripted(lambda ask: Reply(text if expects(ask, MILK) else "Rating: 2"))
    (found,) = rated(judge, ITEM)
    assert found.value is None
    assert found.aspects == (1.0, None)
    assert found.reason == f"1 of 2 aspects unread: unreadable: {why}"
    assert found.raw == ("Rating: 2", text or None)
    assert not found.outage


def test_more_numbers_than_were_asked_for_are_not_taken_for_other_aspects():
    judge, _ = scripted(lambda ask: Reply("Rating: 2\nRating: 0\nRating: 1"))
    (found,) = rated(judge, ITEM)
    assert (found.value, found.aspects) == (None, (None, None))
    assert found.reason == "2 of 2 aspects unread: unreadable: more than one rating"


def test_an_outage_is_told_apart_from_an_unreadable_reply():
    def answer(ask):
        down = Reply(failure="HTTP 503", outage=True)
        return down if expects(ask, MILK) else Reply("Rating: 2")

    judge, _ = scripted(answer)
    (found,) = rated(judge, ITEM)
    assert (found.value, found.outage) == (None, True)
    assert found.reason == "1 of 2 aspects unread: HTTP 503"


def test_a_cut_off_reply_is_asked_again_with_more_tokens():
    def answer(ask):
        return Reply("Hm", cut_off=True) if ask.max_tokens == 64 else Reply("Rating: 2")

    judge, asked = scripted(answer, "&max_tokens=64")
    assert rated(judge, ITEM)[0].value == 1.0
    assert [ask.max_tokens for ask in asked] == [64, 64, 256, 256]


def test_an_empty_response_is_worth_nothing_and_costs_no_call():
    judge, asked = scripted(lambda ask: Reply("Rating: 2"))
    blank, good = rated(judge, QuestionResponse(PAIR, " \n"), ITEM)
    assert blank == QualityScore(value=0.0, aspects=(0.0, 0.0), reason="empty response")
    assert good.value == 1.0
    assert len(asked) == 2
    assert rated(judge, QuestionResponse(PAIR, ""))[0].value == 0.0
    assert rated(judge) == []


def test_equal_responses_to_one_question_are_asked_about_once():
    judge, asked = scripted(lambda ask: Reply("Rating: 1"))
    found = rated(
        judge, ITEM, QuestionResponse(PAIR, "Mint."), ITEM, QuestionResponse(row(STRONG), "Mint.")
    )
    assert [one.value for one in found] == [0.5] * 4
    assert len(asked) == 2 + 2 + 1


def test_logits_give_the_mean_under_the_digits_probabilities():
    odds = {"0": log(0.1), "1": log(0.2), "2": log(0.7)}
    judge, asked = scripted(lambda ask: Reply("2", first_token=odds), "&verdict=logits")
    (found,) = rated(judge, ITEM)
    assert found.value == pytest.approx((0.2 + 2 * 0.7) / 2)
    assert [ask.max_tokens for ask in asked] == [1, 1]
    assert asked[0].messages[0].content.endswith("Answer with one digit, 0, 1 or 2.")


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(["Assam.", "Mint.", "", "Coffee!", "A\nb"]), max_size=6),
    st.integers(0, 9),
)
def test_the_order_of_items_changes_nothing(responses, seed):
    junk = ["Rating: 0", "Rating: 1", "Rating: 2", "2", "Rating: 9"]
    judge, _ = scripted(lambda ask: Reply(junk[len(ask.messages[0].content) % len(junk)]))
    pairs = [row(STRONG, MILK), row(CHEAP, name="q2", narrative=None)]
    items = [QuestionResponse(pairs[k % 2], text) for k, text in enumerate(responses)]
    check_order_changes_nothing(judge, items, seed)


def test_rows_without_a_rubric_are_named_and_counted():
    judge, asked = scripted(lambda ask: Reply("Rating: 2"))
    bare = [row(name=f"bare-{k}") for k in range(5)]
    said = (
        r"5 of 6 rows have no `rubric_aspects` \(bare-0, bare-1, bare-2, …\); "
        "give every row its `rubric_aspects`, or leave these rows out"
    )
    with pytest.raises(BenchmarkError, match=said):
        judge.check([PAIR, *bare])
    items = [ITEM, *(QuestionResponse(pair, text) for pair in bare for text in ("a", "b"))]
    with pytest.raises(BenchmarkError, match="5 of 6 rows"):
        list(judge.rate(items))
    assert asked == []
    judge.check([PAIR])


def test_the_spec_has_one_spelling_and_the_fingerprint_follows_the_numbers():
    def of(options):
        made = rubric_judge(Spec.parse(API + options), default_session(), Settings())
        return made.spec, made.fingerprint

    base = of("")
    assert base[0] == API
    assert of("&verdict=text&protocol=palate&max_tokens=512&timeout=9&retries=1") == base
    assert of("&max_tokens=256")[1] != base[1]
    assert of("&verdict=logits")[1] != base[1]
    assert of("&verdict=logits&max_tokens=9") == of("&verdict=logits")
    assert of("&protocol=paper")[1] != base[1]
    assert of("&protocol=paper")[0] == f"{API}&protocol=paper"
    assert of("&protocol=paper&max_tokens=32") == of("&protocol=paper")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("rubric-judge", "needs a reference"),
        (f"{API}&verdict=loud", "is not one of text, logits"),
        (f"{API}&protocol=lamp", "is not one of palate, paper"),
        (f"{API}&temperature=1", "is not one of none"),
        (f"{API}&protocol=paper&verdict=text", "leave out verdict"),
        ("rubric-judge:api:m", "base_url"),
    ],
)
def test_specs_that_cannot_be_read(spec, said):
    with pytest.raises(SpecError, match=said):
        rubric_judge(Spec.parse(spec), default_session(), Settings())


PAPER = [
    ("[2, 0]", 0.5, None),
    ("[2, 2, 2, 0, 0]", 0.6, None),
    ("2", 1.0, None),
    ("1. Strong: 2\n2. Milk: 2", 1.75 / 2, None),
    ("[10, 2]", 1.0, "the numbers' mean, 6, is above 2 and counts as 2"),
    ("1.5 and 0.5", 0.5, None),
    ("I cannot rate this.", 0.0, "0 by the paper's rule: unreadable: no number"),
    ("", 0.0, "0 by the paper's rule: unreadable: empty reply"),
]


@pytest.mark.parametrize(("reply", "value", "reason"), PAPER)
def test_the_released_rule(reply, value, reason):
    judge, asked = scripted(lambda ask: Reply(reply), "&protocol=paper")
    assert isinstance(judge, ReleasedJudge)
    (found,) = rated(judge, ITEM)
    assert found.value == pytest.approx(value)
    assert (found.reason, found.aspects) == (reason, ())
    ((messages, max_tokens, *_),) = asked
    assert max_tokens == 32
    assert "\n  Strong, dark tea, No milk\n" in messages[0].content
    hidden = (STRONG.reason, STRONG.evidence, PAIR.gold.narrative)
    assert not any(text in messages[0].content for text in hidden)


def test_the_released_rule_asks_once_takes_what_was_cut_off_and_asks_about_empty_responses():
    judge, asked = scripted(lambda ask: Reply("[2, 1", cut_off=True), "&protocol=paper")
    found = rated(judge, ITEM, QuestionResponse(PAIR, ""), ITEM)
    assert [one.value for one in found] == [0.75] * 3
    assert len(asked) == 2


def test_the_released_rule_gives_0_for_a_refusal_but_not_for_an_outage():
    refused, _ = scripted(lambda ask: Reply(failure="HTTP 400"), "&protocol=paper")
    assert rated(refused, ITEM)[0] == QualityScore(
        value=0.0, reason="0 by the paper's rule: HTTP 400"
    )
    down, _ = scripted(lambda ask: Reply(failure="HTTP 503", outage=True), "&protocol=paper")
    assert rated(down, ITEM)[0] == QualityScore(value=None, reason="HTTP 503", outage=True)
    with pytest.raises(BenchmarkError, match="no `rubric_aspects`"):
        refused.check([row()])


def test_a_busy_endpoint_is_asked_again_and_every_response_comes_back_once():
    def answer(_, body):
        turn.append(body)
        if len(turn) % 3 == 1:
            return 429, {"error": "slow down"}
        said = {"message": {"content": "Rating: 2"}, "finish_reason": "stop"}
        return 200, json.dumps({"choices": [said]})

    turn: list[object] = []
    with Loopback(answer) as server:
        url = f"{server.url}/v1"
        judge = rubric_judge(
            Spec.parse(f"rubric-judge:api:m?base_url={url}"), default_session(), Settings()
        )
        model = judge.answers.model
        model.endpoint = ChatEndpoint(model.endpoint.settings, clock=FastClock())
        found = rated(judge, *(QuestionResponse(PAIR, f"Tea {k}.") for k in range(6)))
    assert [one.value for one in found] == [1.0] * 6
    assert len(turn) > 12
