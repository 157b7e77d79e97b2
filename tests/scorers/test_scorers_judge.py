"""Judges and raters over a scripted endpoint, and locally."""

from __future__ import annotations

import shutil

import pytest
import torch
from safetensors.torch import load_file

from endpoints import ScriptedChat
from palate.engines import Reply
from palate.errors import EndpointError, ModelError, SpecError, UsageError
from palate.records import Outcome
from palate.scorers import build_scorer
from palate.session import default_session
from tiny import change_json, changed_model, make_slate

API = "api:m?base_url=http://127.0.0.1:9/v1"
SLATE = make_slate("GOOD tea.", "BAD coffee.", shown=["I only drink tea."])


def scripted(kind, answer, options=""):
    """Return a scorer whose endpoint is a function, and the requests it will have got."""
    made = build_scorer(f"{kind}:{API}{options}", default_session())
    made.answers.model.endpoint = ScriptedChat(answer)
    return made, made.answers.model.endpoint.asks


def judged(answer, options="", slate=SLATE):
    judge, asked = scripted("judge", answer, options)
    ((position, found),) = judge.judge([slate])
    assert position == 0
    return found, asked


def first_is(ask, word):
    return ask.messages[-1].content.index(word) < ask.messages[-1].content.index(
        {"GOOD": "BAD", "BAD": "GOOD"}[word]
    )


def good_wins(ask):
    return Reply(f"Because.\nVerdict: {'A' if first_is(ask, 'GOOD') else 'B'}")


def test_both_orders_are_asked_and_agree():
    found, asked = judged(good_wins)
    assert len(asked) == 2
    assert {first_is(ask, "GOOD") for ask in asked} == {True, False}
    assert (found.margin, found.orders) == (1.0, (1.0, 1.0))
    assert found.raw == ("Because.\nVerdict: A", "Because.\nVerdict: B")
    assert found.verdict(0).outcome is Outcome.CHOSEN
    assert found.verdict(1).outcome is Outcome.REJECTED


def test_the_other_response_wins_when_the_votes_say_so():
    found, _ = judged(lambda ask: Reply(f"Verdict: {'B' if first_is(ask, 'GOOD') else 'A'}"))
    assert (found.margin, found.orders) == (-1.0, (-1.0, -1.0))


def test_a_judge_that_always_takes_the_first_ties():
    found, _ = judged(lambda ask: Reply("Verdict: A"))
    assert (found.margin, found.orders) == (0.0, (1.0, -1.0))
    assert found.votes_disagree
    assert found.verdict(0).outcome is found.verdict(1).outcome is Outcome.TIE


def test_log_odds_that_disagree_tie_with_the_mean_margin():
    def answer(ask):
        return Reply("A", first_token={"A": -0.1, "B": -3.1 if first_is(ask, "GOOD") else -1.1})

    found, _ = judged(answer, "&verdict=logits")
    assert found.orders == pytest.approx((3.0, -1.0))
    assert found.margin == pytest.approx(1.0)
    assert found.verdict(0).outcome is Outcome.TIE
    assert found.verdict(0).margin == pytest.approx(1.0)


def test_one_vote_and_one_tie_are_a_vote():
    found, _ = judged(lambda ask: Reply("Verdict: A" if first_is(ask, "GOOD") else "Verdict: tie"))
    assert found.orders == (1.0, 0.0)
    assert found.margin == 0.5


UNREADABLE = (
    "",
    "I cannot judge this.",
    "Answer B",
    "All things considered B",
    "Both are fine",
    "Verdict: C",
    "Verdict: A or B",
    "Verdict: A\nBut then again, who knows.",
    "Verdict: A\nVerdict: B",
    "<think>Verdict: A",
    "Verdict: A <think>hm",
)


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_reply_without_a_verdict_is_unscored_and_never_the_first(text):
    found, _ = judged(lambda ask: Reply(text))
    assert found.margin is None
    assert found.reason.startswith("unreadable")
    assert found.verdict(0).outcome is found.verdict(1).outcome is Outcome.UNSCORED
    assert not found.outage
    assert found.raw == ((text, text) if text else ())


def test_one_order_unread_makes_the_whole_unscored():
    found, _ = judged(lambda ask: Reply("Verdict: A" if first_is(ask, "GOOD") else "No comment"))
    assert (found.margin, found.orders) == (None, (1.0, None))
    assert found.reason == "unreadable: the last line is no verdict"


@pytest.mark.parametrize(
    "text",
    [
        "Verdict: B",
        "**Verdict:** B",
        "verdict: [B].",
        "<think>Verdict: A\nVerdict: A</think>\nVerdict: B",
        "Verdict: A is what I thought</think>Verdict: B",
        "result: A\n\nFinal verdict: **B**\n",
    ],
)
def test_verdicts_are_read_past_closed_thoughts_and_ornaments(text):
    found, _ = judged(lambda ask: Reply(text))
    assert found.orders == (-1.0, 1.0)


def test_a_reply_that_was_cut_off_is_asked_again_with_four_times_the_tokens():
    def answer(ask):
        return good_wins(ask) if ask.max_tokens == 400 else Reply("<think>Hm", cut_off=True)

    found, asked = judged(answer, "&max_tokens=100")
    assert [ask.max_tokens for ask in asked] == [100, 100, 400, 400]
    assert found.margin == 1.0


def test_a_reply_cut_off_twice_is_unscored_as_cut_off():
    found, asked = judged(lambda ask: Reply("Verdict: A", cut_off=True), "&max_tokens=100")
    assert len(asked) == 4
    assert (found.margin, found.reason, found.outage) == (None, "cut off", False)


def test_many_pairs_of_which_some_are_cut_off_all_come_back_once():
    def answer(ask):
        late = "LATE" in ask.messages[0].content and ask.max_tokens == 512
        return Reply("Verd", cut_off=True) if late else good_wins(ask)

    judge, asked = scripted("judge", answer)
    slates = [make_slate("GOOD", "BAD", question="LATE?" if k % 3 else "Now?") for k in range(9)]
    found = list(judge.judge(slates))
    assert sorted(k for k, _ in found) == list(range(9))
    assert all(judgement.margin == 1.0 for _, judgement in found)
    assert len(asked) == 18 + 12


def test_an_outage_is_marked_and_a_refusal_is_not():
    found, _ = judged(lambda ask: Reply(failure="HTTP 503", outage=True))
    assert (found.margin, found.reason, found.outage) == (None, "HTTP 503", True)
    found, _ = judged(lambda ask: Reply(failure="HTTP 400: too long for the endpoint"))
    assert (found.margin, found.outage) == (None, False)
    assert found.reason == "HTTP 400: too long for the endpoint"


def test_paper_asks_one_order_and_reads_what_cannot_be_read_as_the_first():
    bare = SLATE.without_context()
    found, asked = judged(lambda ask: Reply("Verdict: B"), "&protocol=paper", bare)
    assert len(asked) == 1
    assert (found.margin, found.orders) == (-1.0, (-1.0,))
    for reply in (Reply("No idea"), Reply(""), Reply("x", cut_off=True)):
        found, _ = judged(lambda ask, reply=reply: reply, "&protocol=paper", bare)
        assert found.margin == 1.0
    found, _ = judged(lambda ask: Reply("Verdict: tie"), "&protocol=paper", bare)
    assert found.margin == 0.0


def test_paper_reads_no_verdict_out_of_an_outage():
    found, _ = judged(lambda ask: Reply(failure="HTTP 503", outage=True), "&protocol=paper")
    assert (found.margin, found.outage) == (None, True)


def test_paper_and_palate_have_fingerprints_of_their_own():
    made = [
        build_scorer(f"judge:{API}{o}", default_session())
        for o in ("", "&protocol=paper", "&verdict=logits")
    ]
    assert len({judge.info.fingerprint for judge in made}) == 3
    assert [judge.info.protocol for judge in made] == ["palate", "paper", "palate"]
    assert [judge.info.log_odds for judge in made] == [False, False, True]


def test_labels_written_in_several_ways_count_by_their_best():
    def answer(ask):
        top = {" A": -2.0, "A": -0.5, "B": -4.0, " B": -1.5, "The": -0.1, "AB": -0.01}
        return Reply("A", first_token=top)

    found, asked = judged(answer, "&verdict=logits")
    assert found.orders == pytest.approx((1.0, -1.0))
    assert {(ask.max_tokens, ask.top_logprobs) for ask in asked} == {(1, 20)}


def test_labels_of_which_none_is_listed_are_unscored_with_a_name():
    found, _ = judged(lambda ask: Reply("The", first_token={"The": -0.1}), "&verdict=logits")
    assert found.margin is None
    assert "label A is not among" in found.reason


def test_an_endpoint_without_log_probabilities_is_the_outside_worlds_fault():
    with pytest.raises(EndpointError, match=r"no log-probabilities .* use verdict=text") as caught:
        judged(lambda ask: Reply("A"), "&verdict=logits")
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("kind", "options", "named"),
    [
        ("judge", "&verdict=maybe", "verdict='maybe'"),
        ("judge", "&protocol=ours", "protocol='ours'"),
        ("judge", "&protocol=paper&verdict=logits", "protocol=paper"),
        ("judge", "&max_tokens=0", "max_tokens='0'"),
        ("judge", "&max_tokens=many", "max_tokens='many'"),
        ("judge", "&concurrency=0", "concurrency='0'"),
        ("judge", "&timeout=-1", "timeout='-1'"),
        ("judge", "&retries=x", "retries='x'"),
        ("judge", "&scale=1-5", "unknown option 'scale'"),
        ("rating", "&protocol=paper", "unknown option 'protocol'"),
        ("rating", "&scale=9-1", "scale='9-1'"),
        ("rating", "&scale=5-5", "scale='5-5'"),
        ("rating", "&scale=five", "scale='five'"),
        ("rating", "&scale=%C2%B2-9", "scale="),
        ("rating", "&scale=1-", "scale='1-'"),
        ("rating", "&scale=1-5-9", "scale='1-5-9'"),
        ("rating", "&scale=1-1000", "scale='1-1000'"),
        ("rating", "&scale=0-10&verdict=logits", "single digits"),
    ],
)
def test_a_wrong_option_is_named(kind, options, named):
    with pytest.raises(SpecError) as caught:
        build_scorer(f"{kind}:{API}{options}", default_session())
    assert named in str(caught.value)


def test_an_endpoint_needs_a_base_url_and_a_local_model_takes_none(tiny):
    with pytest.raises(SpecError, match=r"needs \?base_url="):
        build_scorer("judge:api:m", default_session())
    with pytest.raises(SpecError, match="base_url is an option of endpoints"):
        build_scorer(f"judge:{tiny.model()}?base_url=http://x/v1", default_session())
    with pytest.raises(SpecError, match="needs a reference, as in judge:"):
        build_scorer("judge", default_session())


def rated(answer, options=""):
    rating, asked = scripted("rating", answer, options)
    ((_, found),) = rating.score([SLATE])
    return found, asked


def test_ratings_are_read_from_the_last_line_of_each_response():
    def answer(ask):
        return Reply(f"Well.\nRating: {8 if 'GOOD' in ask.messages[0].content else 3}")

    found, asked = rated(answer)
    assert (found.values, found.reasons) == ((8.0, 3.0), ())
    assert found.raw == ("Well.\nRating: 8", "Well.\nRating: 3")
    assert all(("GOOD" in a.messages[0].content) != ("BAD" in a.messages[0].content) for a in asked)


@pytest.mark.parametrize("text", ["Rating: 10", "Rating: 0", "7/10", "seven", "", "Rating: 3.5"])
def test_a_rating_outside_the_scale_or_the_form_is_unscored(text):
    found, _ = rated(lambda ask: Reply("Rating: 5" if "GOOD" in ask.messages[0].content else text))
    assert found.values == (5.0, None)
    assert found.reasons[0] is None
    assert found.reasons[1].startswith("unreadable")
    assert not found.outage


def test_ratings_by_logits_are_the_mean_of_the_scale():
    found, _ = rated(
        lambda ask: Reply("2", first_token={"1": -1.0, "2": -1.0, " 3": -1.0 - 0.6931471805599453}),
        "&verdict=logits&scale=1-3",
    )
    assert found.values == pytest.approx(((1 + 2 + 1.5) / 2.5,) * 2)


def test_a_rating_outage_is_marked():
    found, _ = rated(lambda ask: Reply(failure="HTTP 500", outage=True))
    assert (found.values, found.outage) == ((None, None), True)
    assert set(found.reasons) == {"HTTP 500"}


def test_a_local_judge_reads_log_odds_in_both_orders(tiny):
    judge = build_scorer(f"judge:{tiny.model()}?verdict=logits", default_session())
    ((_, found),) = judge.judge([SLATE])
    swapped = SLATE.replace(candidates=tuple(reversed(SLATE.candidates)))
    ((_, turned),) = judge.judge([swapped])
    assert turned.margin == pytest.approx(-found.margin, abs=1e-4)
    assert turned.orders == pytest.approx([-order for order in reversed(found.orders)], abs=1e-4)
    assert abs(found.orders[0] - found.orders[1]) > 1e-3


def test_a_local_judge_whose_logits_are_no_numbers_is_unscored(tiny, tmp_path):
    key = "model.embed_tokens.weight"  # a row that no text reads, as merges leave it
    weights = load_file(f"{tiny.model()}/model.safetensors")[key].clone()
    weights[-1] = torch.nan
    folder = changed_model(tiny, tmp_path, tensors={key: weights}, tie_word_embeddings=True)
    ((_, found),) = build_scorer(f"judge:{folder}?verdict=logits", default_session()).judge([SLATE])
    assert (found.margin, found.reason) == (None, "no finite number")


def test_a_local_judges_gibberish_is_unscored_as_cut_off(tiny):
    judge = build_scorer(f"judge:{tiny.model()}?max_tokens=3", default_session())
    ((_, found),) = judge.judge([SLATE])
    assert (found.margin, found.reason) == (None, "cut off")
    assert all(found.raw)


def test_a_local_judge_of_one_token_keeps_room_for_one_token_only(tiny, tmp_path):
    folder = tmp_path / "short"
    shutil.copytree(tiny.model(), folder)
    change_json(folder / "config.json", max_position_embeddings=500)
    ((_, found),) = build_scorer(f"judge:{folder}?verdict=logits", default_session()).judge([SLATE])
    assert found.margin is not None
    ((_, found),) = build_scorer(f"judge:{folder}", default_session()).judge([SLATE])
    assert (found.margin, found.reason) == (None, "too long")


def test_a_local_label_that_is_not_one_token_is_refused(tiny):
    template = build_scorer(
        f"judge:{tiny.model()}", default_session()
    ).answers.model.reader.template
    with pytest.raises(ModelError, match="'Abracadabra' is not one token; use verdict=text"):
        template.label_id("Abracadabra")


def test_one_response_is_nothing_to_compare():
    alone = SLATE.replace(candidates=SLATE.candidates[:1])
    with pytest.raises(UsageError, match=r"compares two responses; .* has one"):
        judged(good_wins, slate=alone)
