"""The reader: aspects whose evidence is the user's own sentences, or the reason for none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_policy import ScriptedPolicy

from palate.benchmarks import Dataset
from palate.construction.pair_writing import read_aspects, sentences, sentences_of
from palate.construction.rows import Dropped
from palate.construction.text_checks import quote_faults
from palate.engines import Reply
from palate.errors import EndpointError
from palate.records import Gold, Post, PreferencePair, Question, RubricAspect, normal_form
from palate.stores import Store

NARRATIVE = "- I like it strong! Milk makes me ill.\n\n2. It must be cheap"
READABLE = "Aspect: No milk\nReason: It makes them ill.\nSentences: 2"
ASPECT = RubricAspect(aspect="No milk", reason="It makes them ill.", evidence="Milk makes me ill.")


def subject(question: str = "Which tea?", text: str = NARRATIVE) -> Question:
    return Question(id="1", user_id="ann", text=question, gold=Gold(narrative=text))


def of_text(*texts: str | Reply) -> ScriptedPolicy:
    """Return a policy whose attempt k is text k."""
    return ScriptedPolicy(lambda prompt, number: texts[number])


def test_evidence_is_the_named_sentences_a_line_each(tmp_path):
    reader = of_text("Aspect: a\nReason: b\nSentences: 3, 1")
    ((aspect,),) = read_aspects(reader, [subject()], 1, Store(tmp_path))
    assert aspect.evidence == "I like it strong!\nIt must be cheap"
    assert (
        "[1] I like it strong!\n[2] Milk makes me ill.\n[3] It must be cheap"
        in (reader.asked[0][0])
    )


def test_evidence_of_sentences_apart_is_a_quotation_line_by_line():
    def checked(evidence: str):
        aspect = RubricAspect(aspect="a", evidence=evidence)
        gold = Gold(narrative=NARRATIVE, aspects=(aspect,))
        pair = PreferencePair(
            id="1", user_id="ann", text="?", gold=gold, chosen="yes", rejected="no"
        )
        return quote_faults(Dataset("teas", (pair,)))

    assert checked("I like it strong!\nIt must be cheap") == ([[]], (1, 1))
    assert checked("I like it strong!\nIt must be good") == ([["aspect 1 quotes nothing"]], (0, 1))


def test_of_posts_the_latest_sentences_are_read():
    posts = [Post(id=str(k), text=f"First of {k}. Second of {k}.") for k in range(150)]
    question = Question(id="1", user_id="ann", text="Tea?", profile=tuple(posts))
    read, of = sentences_of(question)
    assert (of, len(read)) == ("posts", 200)
    assert (read[0], read[-1]) == ("First of 50.", "Second of 149.")
    told = question.model_copy(update={"gold": Gold(narrative=NARRATIVE)})
    assert sentences_of(told) == sentences_of(subject()) == ((*sentences(NARRATIVE),), "narrative")


@given(st.text("ab .!?\n-*1)\u3002\u0301e", max_size=40))
def test_each_line_of_the_evidence_is_verbatim(text):
    for line in "\n".join(sentences(text)).splitlines():
        assert normal_form(line) in normal_form(text)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "reader: unreadable"),
        ("Strong tea, no milk.", "reader: no aspect"),
        (f"{READABLE}\nand cheap", "reader: unreadable"),
        (READABLE.replace("2", "4"), "reader: number out of range"),
        (Reply(READABLE, cut_off=True), "reader: cut off"),
        ("I'm sorry, but I can't help with that.", "reader: refused"),
    ],
)
def test_what_cannot_be_read_is_asked_again_with_the_next_number(tmp_path, reply, reason):
    reader = of_text(reply, reply, READABLE)
    assert read_aspects(reader, [subject()], 2, Store(tmp_path)) == [Dropped(reason)]
    assert [number for _, number in reader.asked] == [0, 1]
    assert read_aspects(reader, [subject()], 3, Store(tmp_path)) == [(ASPECT,)]
    assert [number for _, number in reader.asked] == [0, 1, 2], "nothing is asked twice"


def test_only_the_unread_are_asked_again(tmp_path):
    def answer(prompt: str, number: int) -> str:
        if "Taste?" in prompt:
            return "none"
        return READABLE if "Tea?" in prompt or number else "hm"

    reader = ScriptedPolicy(answer)
    subjects = [subject(text) for text in ("Tea?", "Taste?", "Milk?")]
    outcomes = read_aspects(reader, [*subjects, subject("Nothing?", "")], 3, Store(tmp_path))
    assert outcomes == [
        (ASPECT,), Dropped("reader: no taste"), (ASPECT,), Dropped("reader: nothing to read")
    ]  # fmt: skip
    assert [number for _, number in reader.asked] == [0, 0, 0, 1]
    assert "Milk?" in reader.asked[-1][0]


def test_the_reason_is_that_of_the_last_attempt(tmp_path):
    reader = of_text("hm", READABLE.replace("2", "9"))
    assert read_aspects(reader, [subject()], 2, Store(tmp_path)) == [
        Dropped("reader: number out of range")
    ]


def test_a_prompt_that_is_refused_or_too_long_stops_no_other(tmp_path):
    reader = ScriptedPolicy(
        lambda prompt, number: Reply(failure="too long") if "Long?" in prompt else READABLE
    )
    outcomes = read_aspects(reader, [subject("Long?"), subject()], 3, Store(tmp_path))
    assert outcomes == [Dropped("reader: too long"), (ASPECT,)]
    assert len(reader.asked) == 2, "it would be too long again"


def test_an_outage_is_raised_once_all_else_came(tmp_path):
    down = True

    def answer(prompt: str, number: int) -> str | Reply:
        if "Down?" in prompt and down:
            return Reply(failure="HTTP 500", outage=True)
        return READABLE if number else "hm"

    reader, store = ScriptedPolicy(answer), Store(tmp_path)
    subjects = [subject("Down?"), subject("Tea?")]
    with pytest.raises(EndpointError, match=r"scripted: 1 of 3 replies did not come \(HTTP 500\)"):
        read_aspects(reader, subjects, 2, store)
    assert len(reader.asked) == 3
    down = False
    assert read_aspects(reader, subjects, 2, store) == [(ASPECT,)] * 2
    lacking = reader.asked[3:]
    assert [number for _, number in lacking] == [0, 1]
    assert all("Down?" in prompt for prompt, _ in lacking)
