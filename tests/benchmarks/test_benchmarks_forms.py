"""One text in several forms is one text: for couples, votes and splits."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from palate.benchmarks import Dataset, couple_votes, mirrors
from palate.benchmarks.mirrors import match_opposite
from palate.data import forbidden_texts, leaks, load_rows, read_question
from palate.errors import DataError
from palate.learning.recipes import refuse_overlap
from palate.records import Post, PreferencePair
from palate.seeding import rng
from palate.trainers import UserSplit, refuse_shared

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
    assert coupled.couples_in_two_forms == 1
    assert (
        mirrors(Dataset("one form", (ann, pair("2", "bob", SECOND, FIRST)))).couples_in_two_forms
        == 0
    )


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


def test_loading_names_both_ids_and_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    rows = [
        {"id": "1", "user_id": "ana", "question": "A?", "chosen": "x", "rejected": "y"},
        {"id": "2", "user_id": "bob", "question": "A?", "chosen": "x", "rejected": "y"},
        {"id": "3", "user_id": "ana ", "question": "A?", "chosen": "y", "rejected": "x"},
    ]

    def refused(*changed: dict[str, object]) -> str:
        path.write_text("".join(json.dumps(row) + "\n" for row in changed), encoding="utf-8")
        with pytest.raises(DataError) as caught:
            load_rows(path, skip_bad_rows=True)
        return str(caught.value)

    assert refused(*rows) == (
        f"{path}: the user 'ana' (row 1) and the user 'ana ' (row 3) differ in nothing but white "
        "space or the form of accents; write both alike"
    )
    assert "the row '1' (row 1) and the row '1 ' (row 2)" in refused(
        rows[0], rows[1] | {"id": "1 "}
    )
    assert "the row '1' (row 1) and the row ' 1' (`mirror_of` of row 2)" in refused(
        rows[0], rows[1] | {"mirror_of": " 1"}
    )
    assert "the split 'test' (row 1) and the split 'test ' (row 2)" in refused(
        rows[0] | {"split": "test"}, rows[1] | {"split": "test "}
    )
    nfc, nfd = "Jos\u00e9", "Jose\u0301"
    assert r"'Jos\xe9' (row 1) and the user 'Jose\u0301' (row 2)" in refused(
        rows[0] | {"user_id": nfc}, rows[1] | {"user_id": nfd}
    )
