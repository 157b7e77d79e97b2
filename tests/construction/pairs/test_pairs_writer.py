"""The writer: two answers to a question, near in length, or the reason for none."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_policy import ScriptedPolicy

from palate.construction.pair_writing import (
    WrittenPair,
    nearest,
    parse_words,
    side_prompts,
    write_sides,
)
from palate.construction.rows import Dropped
from palate.engines import Reply
from palate.errors import EndpointError, UsageError
from palate.records import Part
from palate.stores import Store

Subject = tuple[str, Any]


def words(n: int, word: str = "tea") -> str:
    return " ".join([word] * n)


def subject(name: str = "q1") -> Subject:
    sides = (("Strong tea",), ()), (("Weak tea",), ())
    return name, side_prompts(f"Tea {name}?", (3, 40), *sides)


def by_side(chosen: list[str | Reply], rejected: list[str | Reply]) -> ScriptedPolicy:
    """Return a writer whose drafts of each side are these."""
    return ScriptedPolicy(
        lambda prompt, number: (chosen if "Strong tea" in prompt else rejected)[number]
    )


def write(writer: ScriptedPolicy, folder, drafts: int, *subjects: Subject, **options):
    return write_sides(
        [writer], subjects or (subject(),), words=(3, 40), drafts=drafts, store=Store(folder),
        **options,
    )  # fmt: skip


def test_the_two_drafts_that_are_nearest_in_length_stay(tmp_path):
    chosen, rejected = [words(n) for n in (20, 31, 10)], [words(n, "milk") for n in (25, 40, 30)]
    (pair,) = write(by_side(chosen, rejected), tmp_path, 3)
    assert pair == WrittenPair(words(31), words(30, "milk"), "scripted")


SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=4)


@given(SIZES, SIZES)
def test_two_stay_where_any_two_are_near(chosen, rejected):
    pair = nearest([words(n) for n in chosen], [words(n, "milk") for n in rejected])
    apart = [abs(a - b) / max(a, b) for a, b in product(chosen, rejected)]
    if min(apart) > 0.15 + 1e-9:
        assert pair == Dropped("writer: lengths")
    else:
        a, b = (len(text.split()) for text in pair)
        assert abs(a - b) / max(a, b) == min(apart)


@pytest.mark.parametrize(("n", "near"), [(85, True), (84, False)])
def test_fifteen_per_cent_of_the_longer(n, near):
    outcome = nearest([words(100)], [words(n, "milk")])
    assert isinstance(outcome, Dropped) is not near


def test_lengths_are_counted_in_the_unit_of_the_script():
    assert nearest(["茶" * 20], ["奶" * 18]) == ("茶" * 20, "奶" * 18)
    assert nearest(["茶" * 20], [words(18)]) == ("茶" * 20, words(18))


GOOD = words(20, "milk")


@pytest.mark.parametrize(
    ("draft", "reason"),
    [
        ("", "empty"),
        (" ... ", "empty"),
        (Reply(words(20), cut_off=True), "cut off"),
        ("I'm sorry, but I can't help with that.", "a refusal"),
        (f"As an AI language model, I {words(16)}", "names its model"),
        (words(2), "words"),
        (words(41), "words"),
        ("<think>Tea?", "unreadable"),
        (Reply(failure="too long"), "too long"),
    ],
)
@pytest.mark.parametrize("side", ["chosen", "rejected"])
def test_a_draft_that_is_no_answer_is_left_out_with_its_reason(tmp_path, draft, reason, side):
    sides = {"chosen": [draft, draft], "rejected": [GOOD, GOOD]}
    if side == "rejected":
        sides = {"chosen": [GOOD, GOOD], "rejected": [draft, draft]}
    assert write(by_side(**sides), tmp_path / "all", 2) == [Dropped(f"writer: {reason}")]
    sides[side] = [draft, words(21)]
    (pair,) = write(by_side(**sides), tmp_path / "half", 2)
    assert isinstance(pair, WrittenPair)
    assert getattr(pair, side) == words(21)


def test_a_thought_is_no_part_of_the_answer(tmp_path):
    writer = by_side([f"<think>{words(90)}</think>\n{words(20)}\n"], [GOOD])
    assert write(writer, tmp_path, 1) == [WrittenPair(words(20), GOOD, "scripted")]


def test_two_equal_answers_are_no_pair(tmp_path):
    writer = by_side([words(20), words(20)], [f"{words(20)}\n", words(19)])
    (pair,) = write(writer, tmp_path / "some", 2)
    assert (pair.chosen, pair.rejected) == (words(20), words(19))
    writer = by_side([words(20)], [words(20)])
    assert write(writer, tmp_path / "none", 1) == [Dropped("writer: equal answers")]


def test_both_sides_are_of_one_writer_and_every_writer_writes(tmp_path):
    writers = [
        ScriptedPolicy(lambda prompt, _, k=k: words(20, f"{k}{'Strong' in prompt}"), f"w{k}")
        for k in range(3)
    ]
    subjects = [subject(f"q{k}") for k in range(60)]
    pairs = write_sides(writers, subjects, words=(3, 40), drafts=1, store=Store(tmp_path), seed=0)
    for pair in pairs:
        assert {pair.chosen[:1], pair.rejected[:1]} == {pair.writer[1]}
        assert pair.chosen.startswith(f"{pair.writer[1]}True")
    counts = Counter(pair.writer for pair in pairs)
    assert sorted(counts) == ["w0", "w1", "w2"]
    assert min(counts.values()) >= 10
    fewer = write_sides(
        writers, subjects[::-3], words=(3, 40), drafts=1, store=Store(tmp_path), seed=0
    )
    assert fewer == pairs[::-3], "who writes does not depend on the other questions"
    other = write_sides(writers, subjects, words=(3, 40), drafts=1, store=Store(tmp_path), seed=1)
    assert [pair.writer for pair in other] != [pair.writer for pair in pairs]
    assert [len(writer.asked) for writer in writers] != [0, 0, 0]


def test_an_outage_is_raised_once_all_else_came(tmp_path):
    down = True

    def answer(prompt: str, number: int) -> str | Reply:
        if "q1?" in prompt and "Weak" in prompt and down:
            return Reply(failure="HTTP 500", outage=True)
        return words(20, "strong" if "Strong" in prompt else "weak")

    writers = [ScriptedPolicy(answer, name) for name in ("w0", "w1")]
    store, subjects = Store(tmp_path), [subject(f"q{k}") for k in range(8)]
    with pytest.raises(EndpointError, match=r"w\d: 2 of \d+ replies did not come \(HTTP 500\)"):
        write_sides(writers, subjects, words=(3, 40), drafts=2, store=store)
    asked = [*writers[0].asked, *writers[1].asked]
    assert len(asked) == 8 * 2 * 2
    for writer in writers:
        writer.asked.clear()
    down = False
    pairs = write_sides(writers, subjects, words=(3, 40), drafts=2, store=store)
    assert all(isinstance(pair, WrittenPair) for pair in pairs)
    again = [*writers[0].asked, *writers[1].asked]
    assert again == [(text, k) for text, k in asked if "q1?" in text and "Weak" in text]


TEXT = st.text("xyz", min_size=6, max_size=9)
PARTS = st.lists(TEXT.map(lambda text: Part(kind="post", text=text)), max_size=3).map(tuple)
TITLES = st.lists(TEXT, min_size=1, max_size=3).map(tuple)


@given(TITLES, TITLES, PARTS, PARTS, st.booleans())
def test_no_prompt_holds_the_other_users_texts(titles, others, parts, other_parts, violate):
    theirs = tuple(title.upper() for title in others)
    their_parts = tuple(part.model_copy(update={"text": part.text.upper()}) for part in other_parts)
    other = None if violate else (theirs, their_parts)
    chosen, rejected = side_prompts("Tea?", (3, 40), (titles, parts), other)
    mine, yours = {*titles, *(p.text for p in parts)}, {*theirs, *(p.text for p in their_parts)}
    first, second = chosen[0].content, rejected[0].content
    assert all(text in first for text in mine)
    assert not any(text in first for text in yours)
    assert all((text in second) is violate for text in mine)
    assert all((text in second) is not violate for text in yours)


@pytest.mark.parametrize("text", ["70-100", "1-1", "30-110"])
def test_words_are_read(text):
    assert "-".join(map(str, parse_words(text))) == text


@pytest.mark.parametrize(
    "text", ["", "70", "70-", "-100", "100-70", "0-10", "a-b", "7.5-9", "70 - 100", "70-100000000"]
)
def test_words_that_cannot_be_are_refused(text):
    with pytest.raises(UsageError, match=r"--words .*: expected the fewest and the most words"):
        parse_words(text)
