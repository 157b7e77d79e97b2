"""One text in several forms is one text: for couples, votes and splits."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations import TURNS, row, two_users
from palate.benchmarks import Dataset, EvaluatedVotes, couple_votes, mirrors
from palate.benchmarks.selection import match_opposite
from palate.comparison import evaluate
from palate.data import forbidden_texts, leaks, read_question
from palate.errors import BenchmarkError, DataError
from palate.evaluation import history_of
from palate.learning import refuse_overlap
from palate.records import Post, PreferencePair
from palate.seeding import rng
from palate.trainers import UserSplit, refuse_shared
from row_files import load

QUESTION, FIRST, SECOND = "Which caf\u00e9,\nand why?", "Caf\u00e9 A.\nIt is near.", "Caf\u00e9 B."
FORMS: dict[str, Callable[[str], str]] = {
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "NFD": lambda text: unicodedata.normalize("NFD", text),
    "a trailing space": lambda text: f"{text} ",
    "a final line end": lambda text: f"{text}\n",
    "a no-break space": lambda text: text.replace(" ", "\u00a0"),
}
other_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
Form = Callable[[str], str]


def pair(name: str, user: str, chosen: str, rejected: str, form: Form = str, **fields: object):  # type: ignore[no-untyped-def]
    texts = {"text": form(QUESTION), "chosen": form(chosen), "rejected": form(rejected)}
    return PreferencePair(id=name, user_id=user, **texts, **fields)  # type: ignore[arg-type]


@other_form
def test_a_couple_stays_a_couple(form: Form) -> None:
    ann, bob = pair("1", "ann", FIRST, SECOND), pair("2", "bob", SECOND, FIRST, form)
    votes = Dataset("votes", (ann, bob))
    assert couple_votes(votes) == {"1": "2", "2": "1"}
    coupled = mirrors(votes)
    assert coupled.couples == ((0, 1),) and coupled.mirrored
    assert (coupled.pairs[0].chosen, coupled.pairs[1].chosen) == (FIRST, form(SECOND)), "as it came"
    named = (ann.model_copy(update={"mirror_of": "2"}), bob.model_copy(update={"mirror_of": "1"}))
    assert Dataset("named", named).couples == ((0, 1),)
    assert coupled.in_two_forms == {0, 1}
    assert not mirrors(Dataset("one form", (ann, pair("2", "bob", SECOND, FIRST)))).in_two_forms


@other_form
def test_a_copy_in_another_form_is_neither_past_choice_nor_learnt_from(form: Form) -> None:
    test = pair("1", "ann", FIRST, SECOND, split="test")
    copy = pair("2", "ann", SECOND, FIRST, form, split="adapt")
    other = pair("3", "ann", "Tea.", SECOND, form, split="adapt")
    made = Dataset("made", (test, copy, other))
    selected = made.select()
    assert ([row.id for row in selected.history], selected.history_left_out) == (["3"], 1)
    learnt = made.for_training()
    assert ([row.id for row in learnt.rows], learnt.history_left_out) == (["3"], 1)


@other_form
def test_a_post_in_another_form_gives_the_answer_away(form: Form) -> None:
    view = pair("1", "ann", FIRST, SECOND).view
    for text in (QUESTION, FIRST, SECOND):
        assert leaks(f"Once more: {form(text)} So there.", forbidden_texts(view))


@other_form
def test_a_post_in_another_form_is_the_question(form: Form) -> None:
    row = {"id": "1", "question": QUESTION, "chosen": FIRST, "rejected": SECOND}
    for text in (form(QUESTION), form("Which caf\u00e9,")):
        with pytest.raises(DataError, match="the post is the question itself"):
            read_question(row | {"profile": [{"text": text}]}, subset="x")
    left_out: list[str] = []
    within = {"text": f"I asked. {form(QUESTION)} Nobody knew."}
    read_question(row | {"profile": [within]}, subset="x", left_out=left_out)
    assert left_out == ["profile[0].text"]


@other_form
def test_who_wrote_the_same_in_another_form_is_no_other_person(form: Form) -> None:
    post = Post(id="1", text="My caf\u00e9 is near.\nI like it.")
    again = post.model_copy(update={"text": form(post.text)})
    ann = pair("1", "ann", FIRST, SECOND, profile=(post,))
    bob = pair("2", "bob", FIRST, SECOND, form, profile=(again,))
    with pytest.raises(DataError, match="asked by somebody of the same profile"):
        refuse_overlap([ann], [bob], "made")
    split = UserSplit(Dataset("a", (ann,)), Dataset("b", (bob,)))
    assert split.shared_questions == 1
    with pytest.raises(DataError, match="all that they wrote are trained on too"):
        refuse_shared(split)


@other_form
def test_responses_of_one_text_are_no_two_responses(form: Form) -> None:
    row = {"id": "1", "question": QUESTION, "chosen": FIRST, "rejected": form(FIRST)}
    with pytest.raises(DataError, match="`rejected` but for white space or the form of accents"):
        read_question(row, subset="x")
    assert read_question(row | {"tie": True}, subset="x"), "an undecided row is left out anyway"
    listed = {"id": "1", "question": QUESTION, "responses": [FIRST, SECOND, form(FIRST)]}
    with pytest.raises(DataError, match="the same text as an earlier response"):
        read_question(listed, subset="x")


def test_texts_of_one_form_are_coupled_as_ever() -> None:
    users = [f"u{k}" for k in range(9)]
    votes = tuple(
        pair(f"v{k}", user, *((FIRST, SECOND) if k % 2 else (SECOND, FIRST)))
        for k, user in enumerate(users)
    )
    stream = rng("mirrors", 7, QUESTION, FIRST, SECOND)
    ours, theirs = users[1::2], users[::2]
    expected = {
        name: other
        for i, j in match_opposite(ours, theirs, stream)
        for name, other in [(f"v{ours[i][1:]}", f"v{theirs[j][1:]}")]
        for name, other in [(name, other), (other, name)]
    }
    assert couple_votes(Dataset("votes", votes), 7) == expected
    # Of several forms, that of the first in the order of texts is drawn for: no order of rows is.
    mixed = (*votes[:4], *(pair(v.id, v.user_id, v.chosen, v.rejected, FORMS["a trailing space"])
                           for v in votes[4:]))  # fmt: skip
    assert couple_votes(Dataset("votes", mixed), 7) == expected
    assert couple_votes(Dataset("votes", mixed[::-1]), 7) == expected


def test_a_user_of_past_choices_is_spelt_as_in_the_rows() -> None:
    made = Dataset("made", (pair("1", "ana", FIRST, SECOND),))
    with pytest.raises(DataError, match=r"'ana' \(row '1'\) and the user 'ana ' \(row '2'\)"):
        made.with_history([pair("2", "ana ", "Tea.", SECOND)])
    assert replace(made, history=()).with_history([pair("2", "ana", "Tea.", SECOND)]).history


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ({}, {"user_id": "ana "}, "the user 'ana' (row 1) and the user 'ana ' (row 2)"),
        ({}, {"id": "1 "}, "the row '1' (row 1) and the row '1 ' (row 2)"),
        ({}, {"mirror_of": " 1"}, "the row '1' (row 1) and the row ' 1' (`mirror_of` of row 2)"),
        ({"split": "test"}, {"split": "test "}, "'test' (row 1) and the split 'test ' (row 2)"),
        ({"user_id": "Jos\u00e9"}, {"user_id": "Jose\u0301"},
         r"'Jos\xe9' (row 1) and the user 'Jose\u0301' (row 2)"),
    ],
)  # fmt: skip
def test_loading_names_both_ids_and_their_lines(
    tmp_path: Path, first: dict[str, str], second: dict[str, str], says: str
) -> None:
    row = {"id": "1", "user_id": "ana", "question": "A?", "chosen": "x", "rejected": "y"}
    with pytest.raises(DataError) as caught:
        load(tmp_path / "votes.jsonl", [row | first, row | {"id": "2", "user_id": "bob"} | second])
    assert str(caught.value).startswith(f"{tmp_path / 'votes.jsonl'}: the ")
    assert str(caught.value).endswith(
        f"{says} differ in nothing but white space or the form of accents, or in what has no "
        "width; write both alike"
    )


# turns before the question are part of it


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
