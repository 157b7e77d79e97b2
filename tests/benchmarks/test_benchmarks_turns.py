"""Who asks the same: turns are part of a question for couples, votes and clusters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations import TURNS, row, two_users
from palate.benchmarks import Dataset, EvaluatedVotes, couple_votes
from palate.data import read_question
from palate.errors import BenchmarkError
from palate.evaluation import evaluate, history_of
from palate.records import PreferencePair

OTHER = [*TURNS[:2], {"role": "assistant", "content": "With coffee or with soup?"}]


def data(*rows: dict[str, Any]) -> Dataset:
    return Dataset.from_rows("teas", rows)


def test_a_couple_has_the_same_turns() -> None:
    ann, bob = two_users()
    assert couple_votes(data(ann, bob)) == {"ann": "bob", "bob": "ann"}
    spaced = [{**turn, "content": turn["content"].replace(" ", "\r\n")} for turn in TURNS]
    assert couple_votes(data(ann, bob | {"turns": spaced})) == {"ann": "bob", "bob": "ann"}
    for turns in (OTHER, TURNS[1:], None):
        assert couple_votes(data(ann, bob | {"turns": turns})) == {}
        named = data(ann | {"mirror_of": "bob"}, bob | {"mirror_of": "ann", "turns": turns})
        assert not named.mirrored and not named.couples


def test_a_vote_on_other_turns_is_another_vote() -> None:
    evaluated = data(row("1", "ann"))
    past = data(row("2", "ann"), row("3", "ann") | {"turns": OTHER})
    whole = evaluated.with_history(past.rows)
    assert [pair.id for pair in whole.history] == ["3"] and whole.history_left_out == 1
    split = data(row("1", "ann", split="test"), row("2", "ann", split="adapt"),
                 row("3", "ann", split="adapt") | {"turns": OTHER})  # fmt: skip
    assert [pair.id for pair in split.for_training().rows] == ["3"]


def asked(question: str, *before: str, user: str = "ann") -> dict[str, Any]:
    roles = ("user", "assistant") * len(before)
    turns = [{"role": r, "content": t} for r, t in zip(roles, before, strict=False)]
    return {"id": "later", "user_id": user, "question": question, "turns": turns,
            "chosen": "Thirteen.", "rejected": "Twelve."}  # fmt: skip


LONG = "Brew the caf\u00e9's second flush for three minutes."
JUDGED = {"id": "1", "user_id": "ann", "question": "Which tea?", "chosen": LONG, "rejected": "No."}
WRITTEN_ANEW = LONG.replace("\u00e9", "e\u0301").replace(" ", "\r\n").upper()


@pytest.mark.parametrize(
    ("later", "told"),
    [
        (asked("And the milk?", "Which tea?", LONG), True),
        (asked("And the milk?", "WHICH  tea?", WRITTEN_ANEW), True),
        (asked("And the milk?", "Quoted:", f"you said: {LONG} Well?"), True),
        (asked(f"Shorten this: {LONG} Thanks!"), True),
        (asked("And the milk?", "Which tea?", " No.\n"), True),
        (asked("And the milk?", "Which milk?", "No."), False),
        (asked("And the milk?", "Which tea?", LONG[:29]), False),
        (asked("And the milk?", "Which tea?", LONG, user="bob"), False),
    ],
)  # fmt: skip
def test_a_choice_that_was_asked_with_an_evaluated_response_is_not_learnt_from(
    later: dict[str, Any], told: bool
) -> None:
    """The user went on from the response that they chose: the next choice tells which it was."""
    past = {**later, "split": "adapt"}, {**asked("Else?"), "id": "else", "split": "adapt"}
    left = ["else"] if told else ["later", "else"]
    whole = data({**JUDGED, "split": "test"}, *past)
    selected, learnt = whole.select(), whole.for_training()
    assert [pair.id for pair in selected.history] == left
    assert [pair.id for pair in learnt.rows] == left
    assert selected.history_left_out == learnt.history_left_out == told
    if told:
        with pytest.raises(BenchmarkError, match="never learnt from"):
            history_of(replace(data(JUDGED), history=data(later).pairs))


def test_a_question_that_offers_its_responses_may_return() -> None:
    offers = f"Which do you prefer: {LONG} Or: No."
    judged = data({**JUDGED, "question": offers, "split": "test"},
                  {**asked(offers), "split": "adapt"})  # fmt: skip
    assert [pair.id for pair in judged.select().history] == ["later"]


RESPONSES = st.text("ab ", min_size=30, max_size=40).filter(lambda text: len(text.split()) > 0)


@given(st.lists(RESPONSES, min_size=1, max_size=4), st.lists(st.text("ab ", max_size=90)))
def test_responses_are_looked_up_as_a_search_would(responses: list[str], asks: list[str]) -> None:
    judged = [
        read_question({**JUDGED, "id": k, "question": "Q?", "chosen": text, "rejected": "c"},
                      subset="s")
        for k, text in enumerate(responses)
    ]  # fmt: skip
    votes = EvaluatedVotes(judged)
    openings = [" ".join(text.split()) for text in responses]
    for text in (*asks, *(f"b {text}a" for text in responses)):
        later = read_question(asked("Then?", f"{text}."), subset="s")
        assert isinstance(later, PreferencePair)
        plain = " ".join(f"{text}.".split())
        assert votes.told_by(later) == any(len(o) >= 30 and o in plain for o in openings)


def test_rows_of_one_last_message_after_other_turns_share_no_question() -> None:
    ann, bob = two_users()
    run = evaluate(data(ann, bob, row("c", "cy") | {"turns": OTHER}), "random", "none", root=None)
    hashes = [json.loads(line)["question_hash"] for line in run.lines()]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_candidate_order_is_drawn_for_the_whole_conversation() -> None:
    texts = {str(k): [{"role": "user", "content": f"Day {k}."}] for k in range(64)}
    rows = [row(name, "ann") | {"turns": turns} for name, turns in texts.items()]
    run = evaluate(data(*rows), "random", "none", root=None)
    lines = [json.loads(line) for line in run.lines()]
    first = sum(line["chosen_first"] for line in lines)
    assert 16 < first < 48, "one draw for all would be 0 or 64"
