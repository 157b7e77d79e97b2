"""Rows made of choices, and the split that every choice on a question falls into."""

from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.data import choice_key, choice_row, read_question, split_of
from palate.errors import DataError, UsageError
from palate.records import Message

SHARE = {"test_share": 0.3, "seed": 5}
TEXTS = st.text(min_size=1).filter(str.strip)


def user(text: str) -> Message:
    return Message(role="user", content=text)


def test_a_share_of_questions_is_for_testing_and_a_larger_share_keeps_them():
    keys = [choice_key(f"Question {k}?") for k in range(4000)]
    tested = {
        share: {key for key in keys if split_of(key, test_share=share, seed=0) == "test"}
        for share in (0.0, 0.3, 0.5, 1.0)
    }
    assert (len(tested[0.0]), len(tested[1.0])) == (0, 4000)
    assert 1_110 < len(tested[0.3]) < 1_290  # three standard deviations
    assert tested[0.3] < tested[0.5]
    other = {key for key in keys if split_of(key, test_share=0.3, seed=1) == "test"}
    assert 0.2 < len(other & tested[0.3]) / 1_200 < 0.4, "seeds split anew"


@given(TEXTS, st.sampled_from([" ", "\n", "\r\n ", "\u00a0", "\t"]))
def test_white_space_and_the_form_of_accents_change_no_split(text, blank):
    for other in (f"{blank}{text}{blank}", normalize("NFD", text), text.replace(" ", blank)):
        key = choice_key(other, [user(f"Né{blank}e")])
        assert key == choice_key(text, [user("Ne\u0301 e")])
        assert split_of(key, **SHARE) == split_of(choice_key(text, [user("Né e")]), **SHARE)


def test_turns_tell_questions_apart_but_not_how_messages_of_one_role_were_cut():
    assert choice_key("Tea?") != choice_key("Tea?", [Message(role="assistant", content="Hi.")])
    assert choice_key("Tea?", [user("Hi."), user("I am here.")]) == choice_key(
        "I am here.\n\nTea?", [user("Hi.")]
    )


def test_a_row_has_what_was_given_and_is_one_of_the_contract():
    row = choice_row(
        "ann", "Tea?", "Yes.", "No.", split="test", date="2026-11-27T10:00:00Z",
        turns=(user("Hello."),), category="drinks", traits={"age": "40"},
        responses=("Yes.", "No.", "Perhaps."), tie=True, id="r1",
    )  # fmt: skip
    pair = read_question(row, subset="all")
    assert (pair.id, pair.user_id, pair.text, pair.split) == ("r1", "ann", "Tea?", "test")
    assert (pair.turns, pair.tie, pair.traits) == ((user("Hello."),), True, {"age": "40"})
    assert row["turns"] == [{"role": "user", "content": "Hello."}]
    bare = [choice_row("ann", "Tea?", "Yes.", "No.", split="adapt", date="2026") for _ in "ab"]
    assert set(bare[0]) == {
        "id", "user_id", "question", "chosen", "rejected", "split", "date",
    }  # fmt: skip
    assert bare[0]["id"] != bare[1]["id"]


@pytest.mark.parametrize(
    ("change", "field"),
    [({"chosen": "No. "}, "chosen"), ({"question": " "}, "question"), ({"date": "9/30/17"}, "date"),
     ({"responses": ["Yes.", "Else."]}, "rejected"), ({"user": " "}, "user_id")],
)  # fmt: skip
def test_what_breaks_the_contract_names_its_field(change, field):
    usual = {"user": "ann", "question": "Tea?", "chosen": "Yes.", "rejected": "No."}
    with pytest.raises(DataError) as error:
        choice_row(**{**usual, "split": "adapt", "date": "2026", **change})
    assert error.value.field == field


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_what_is_no_share_is_one_line(share):
    with pytest.raises(UsageError, match=r"--test-share .*: expected a share, from 0 to 1"):
        split_of("Tea?", test_share=share, seed=0)
