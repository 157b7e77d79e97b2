# ruff: noqa: E501  (the prompts are quoted as they are)
"""What a reader and a writer of pairs are asked, and how a reader's reply is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from palate.prompts import ReadAspect, Unreadable, parse_aspects, reader_prompt, writer_prompt
from palate.records import Message, Part

SENTENCES = ("I like it strong.", "No  milk.", "[1] Cold tea is fine.")
TITLES = ("Strong tea", "No milk,\n at all </post>")
POSTS = (Part(kind="post", category="kitchen", text="The kettle leaks. </post>"),)
WORDS = (70, 100)


def only(messages: tuple[Message, ...]) -> str:
    (message,) = messages
    assert message.role == "user"
    return message.content


def test_a_reader_of_a_narrative_is_asked() -> None:
    assert only(reader_prompt("Which tea?\nReason: none", SENTENCES, "narrative")) == snapshot("""\
You will see a question, and sentence by sentence what the person who asks it says of their need. Tell what this person expects of a good answer.

Question:
  Which tea?
  Reason: none

What they say of their need:
[1] I like it strong.
[2] No milk.
[3] [1] Cold tea is fine.

Name what sets this person's expectations apart from those of others who ask the same: at most six aspects, the most important first. Go by these sentences alone. Write three lines for each aspect:
Aspect: what they expect, in at most a dozen words
Reason: why the sentences show it, in one sentence
Sentences: the numbers of the sentences that show it, such as 2, 5

If the sentences show no taste of this person, so that the same answer would suit everybody, write the one word "none". Write nothing else.\
""")


def test_a_reader_of_posts_is_asked() -> None:
    assert only(reader_prompt("Which tea?", SENTENCES, "posts")) == snapshot("""\
You will see a question, and sentence by sentence what one person wrote earlier. Tell what this person would expect of a good answer to the question.

Question:
  Which tea?

What they wrote earlier:
[1] I like it strong.
[2] No milk.
[3] [1] Cold tea is fine.

Name what sets this person's expectations apart from those of others who ask the same: at most six aspects, the most important first. Go by these sentences alone. Write three lines for each aspect:
Aspect: what they expect, in at most a dozen words
Reason: why the sentences show it, in one sentence
Sentences: the numbers of the sentences that show it, such as 2, 5

If the sentences show no taste of this person, so that the same answer would suit everybody, write the one word "none". Write nothing else.\
""")


def test_a_writer_is_asked() -> None:
    assert only(writer_prompt("Which tea?", TITLES, words=WORDS)) == snapshot("""\
What the person who asks expects of an answer:
- Strong tea
- No milk, at all <\u200b/post>

Answer the question below in one paragraph of 70 to 100 words that follows all of these expectations. Speak of the subject alone: not of these expectations, of the person or of yourself.

Which tea?\
""")


def test_a_writer_that_is_shown_posts_is_asked() -> None:
    assert only(writer_prompt("Which tea?", TITLES, POSTS, words=(30, 110))) == snapshot("""\
What the person who asks expects of an answer:
- Strong tea
- No milk, at all <\u200b/post>

Answer the question below in one paragraph of 30 to 110 words that follows all of these expectations. Speak of the subject alone: not of these expectations, of the person or of yourself.

What the person who asks wrote earlier:

<post about="kitchen">
The kettle leaks. <\u200b/post>
</post>

Their question:
Which tea?\
""")


@pytest.mark.parametrize("parts", [(), POSTS])
def test_against_the_rubric_is_one_other_line(parts: tuple[Part, ...]) -> None:
    follow = only(writer_prompt("Which tea?", TITLES, parts, words=WORDS)).splitlines()
    against = only(writer_prompt("Which tea?", TITLES, parts, words=WORDS, against=True))
    pairs = zip(follow, against.splitlines(), strict=True)
    assert [pair for pair in pairs if pair[0] != pair[1]] == snapshot(
        [
            (
                "Answer the question below in one paragraph of 70 to 100 words that follows all of these expectations. Speak of the subject alone: not of these expectations, of the person or of yourself.",
                "Answer the question below in one paragraph of 70 to 100 words that goes against all of these expectations. Speak of the subject alone: not of these expectations, of the person or of yourself.",
            )
        ]
    )


@pytest.mark.parametrize(
    ("last", "numbers"),
    [("2", (2,)), ("5, 2", (2, 5)), ("2,5", (2, 5)), ("2-4", (2, 3, 4)), ("2–4, 7", (2, 3, 4, 7)),
     ("[2], [5]", (2, 5)), ("[2, 5]", (2, 5)), ("2 and 5", (2, 5)), ("2, 4, and 5.", (2, 4, 5)),
     ("2; 2", (2,)), ("2、5", (2, 5)), ("**7**", (7,))],
)  # fmt: skip
def test_sentences_are_named_by_number(last: str, numbers: tuple[int, ...]) -> None:
    (aspect,) = parse_aspects(f"Aspect: a\nReason: b\nSentences: {last}", 7)
    assert aspect == ReadAspect("a", "b", numbers)


@pytest.mark.parametrize("last", ["0", "8", "1, 8", "5-8", "4-3", "0-2", "999999"])
def test_a_number_of_no_sentence_is_out_of_range(last: str) -> None:
    with pytest.raises(Unreadable, match=r"\Anumber out of range\Z"):
        parse_aspects(f"Aspect: a\nReason: b\nSentences: {last}", 7)


WHOLE = "Aspect: a\nReason: b\nSentences: 1"


@pytest.mark.parametrize(
    "reply",
    [
        WHOLE,
        f"Here they are:\n\n{WHOLE}\n",
        "**Aspect:** a\n**Reason:** b\n**Sentences:** 1",
        "**Aspect**: **a**\n- Reason: b\n- Sentences: 1",
        "1. Aspect: a\n   Reason: b\n   Sentences: 1",
        "### Aspect 1: a\nReason: b\nSentence: 1",
        "aspect: a\r\nREASON: b\r\nsentences: 1\r\n",
        f"<think>Aspect: no</think>{WHOLE}",
    ],
)
def test_an_aspect_is_read_with_any_bullets(reply: str) -> None:
    assert parse_aspects(reply, 1) == (ReadAspect("a", "b", (1,)),)


@pytest.mark.parametrize("reply", ["none", '"None."', "**none**", "<think>x</think>\nNone"])
def test_none_is_no_aspect(reply: str) -> None:
    assert parse_aspects(reply, 3) == ()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "unreadable: empty reply"),
        ("<think>Aspect: a", "unreadable: a thought that does not end"),
        ("They like strong tea.", "no aspect"),
        ("None of this is known to me.", "no aspect"),
        ("Aspect: a", "unreadable: not three lines an aspect"),
        ("Aspect: a\nSentences: 1", "unreadable: not three lines an aspect"),
        ("Aspect: a\nReason: b", "unreadable: not three lines an aspect"),
        ("Reason: b\nAspect: a\nSentences: 1", "unreadable: not three lines an aspect"),
        (f"{WHOLE}\nAspect: c", "unreadable: not three lines an aspect"),
        (f"{WHOLE}\nI hope this helps.", "unreadable: a line without a label"),
        ("Aspect: a\nReason: b\nand c\nSentences: 1", "unreadable: a line without a label"),
        ("Aspect:\nReason: b\nSentences: 1", "unreadable: not three lines an aspect"),
        ("Aspect: a\nReason: b\nSentences: all", "unreadable: no list of numbers"),
        ("Aspect: a\nReason: b\nSentences: 1 to 2", "unreadable: no list of numbers"),
        ('Aspect: a\nReason: b\nSentences: "No milk."', "unreadable: no list of numbers"),
        ("Aspect: a\nReason: b\nSentences: -1", "unreadable: no list of numbers"),
        (f"{WHOLE}\n\n{WHOLE.replace(' a', ' A')}", "unreadable: an aspect is there twice"),
    ],
)
def test_what_is_no_list_of_aspects_is_unreadable(reply: str, reason: str) -> None:
    with pytest.raises(Unreadable) as error:
        parse_aspects(reply, 1)
    assert str(error.value) == reason


TITLE = st.text("abc :-1.", min_size=1).map(lambda text: " ".join(text.split())).filter(bool)
ASPECT = st.builds(
    ReadAspect, TITLE, TITLE, st.sets(st.integers(1, 9), min_size=1).map(sorted).map(tuple)
)


@given(st.lists(ASPECT, min_size=1, max_size=4, unique_by=lambda aspect: aspect.title))
def test_aspects_in_the_asked_form_are_read_as_they_were(aspects: list[ReadAspect]) -> None:
    blocks = [
        f"Aspect: {a.title}\nReason: {a.reason}\nSentences: {', '.join(map(str, a.numbers))}"
        for a in aspects
    ]
    assert parse_aspects("\n\n".join(blocks), 9) == tuple(aspects)


@given(st.text("Aspect:Rson 12,-\n", max_size=60), st.integers(0, 3))
def test_no_aspect_names_a_sentence_that_is_not_there(reply: str, n: int) -> None:
    try:
        aspects = parse_aspects(f"Aspect: a\nReason: b\nSentences: 1{reply}", n)
    except Unreadable:
        return
    assert aspects
    assert all(1 <= number <= n for aspect in aspects for number in aspect.numbers)
