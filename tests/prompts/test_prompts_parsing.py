from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.prompts import Unreadable, parse_rating, parse_verdict, without_thought

READ = [
    ("Verdict: A", "A"),
    ("verdict: b", "B"),
    ("B is livelier.\nVerdict: B", "B"),
    ("Reason.\n\n**Verdict: B**\n", "B"),
    ("**Verdict:** A", "A"),
    ("**Verdict**: A", "A"),
    ("__Verdict:__ B", "B"),
    ("Verdict: [[A]]", "A"),
    ("Verdict: (B).", "B"),
    ("Verdict: `A`", "A"),
    ("### Verdict: B", "B"),
    ("> Verdict: B", "B"),
    ("Final verdict: A.", "A"),
    ("Verdict : A", "A"),
    ("Verdict: tie", "tie"),
    ("Verdict: TIE", "tie"),
    ("Verdict: A\nVerdict: A", "A"),
    ("Verdict: A\n**\n", "A"),
    ("```\nVerdict: A\n```", "A"),
    ("Verdict: A\r\n", "A"),
    ("I first thought of A, but result: A is dull.\nVerdict: B", "B"),
    ("<think>Verdict: A</think>Verdict: B", "B"),
    ("<think>\nVerdict: A\n</think>\n\nB is warm.\n**Verdict: B**", "B"),
    ("\n <THINK>a</THINK> Verdict: A", "A"),
    ("<thinking>Verdict: A</thinking>\nVerdict: B", "B"),
    ("<reasoning>Verdict: A</reasoning>\nVerdict: B", "B"),
    ("<think>the tag </thinking> is not mine</think>Verdict: B", "B"),
    ("A, no...\nVerdict: A\n</think>\nVerdict: B", "B"),
    ("A names <think> in its prose.\nVerdict: B", "B"),
    ("A writes <reasoning>tea</reasoning> aloud.\nVerdict: B", "B"),
    ("<think>A?</think>A's <thinking> tag is odd.\nVerdict: B", "B"),
    ("<think>a</think>\n<think>Verdict: A</think>\nVerdict: B", "B"),
    ("Verdict: A, no\n</think><think>Verdict: A</think>Verdict: B", "B"),
    ("<think>its end is </think>, I think.\nVerdict: A</think>Verdict: B", "B"),
]
REFUSED = [
    "", "   \n\n", "**", "Answer B", "B", "A", "All things considered B", "Both are fine",
    "result: A is warm. **Result:** B", "Result: A", "**Answer:** B", "Verdict: A\nVerdict: B",
    "Verdict: A\nor\nVerdict: B", "Verdict: A or B", "Verdict: A/B", "Verdict: AB", "Verdict:",
    "Verdict: C", "Verdict: neither", "Verdict: A, because it is warm", "Verdict: not A",
    "Verdict: A\nI hope this helps.", "My verdict: A", "Verdict is A", "Verdict A",
    "Verdict: Response A", "Verdict: [A or B]", "The verdict: both A", "Verdict: A B",
    "Verdict: A?", "Verdict: a tie", "Preverdict: A",
    "<think>", "<think>Verdict: A", "<think>hm\nVerdict: A\n", "<think>Verdict: A</think>",
    "<think>a</think>", "<think>a</think><think>Verdict: B", "Verdict: A</think>",
    "Verdict: A\n<think>Verdict: B", "<think>a</thinking>\nVerdict: B",
    "Verdict: A\nA wrote <think>x</think>\nVerdict: B", "A opens <think>\nVerdict: A\nIt ends.",
    "\n <Reasoning>so <think>a</think>\nVerdict: B", "I cannot judge people.",
    '{"verdict": "A"}', "[2, 2, 2]", "nan",
]  # fmt: skip


@pytest.mark.parametrize(("reply", "letter"), READ)
def test_a_verdict_is_read(reply: str, letter: str) -> None:
    assert parse_verdict(reply) == letter


@pytest.mark.parametrize("reply", REFUSED)
def test_what_is_no_verdict_is_not_guessed(reply: str) -> None:
    with pytest.raises(Unreadable, match=r"^unreadable: "):
        parse_verdict(reply)


RATED = [
    ("Rating: 7", 7),
    ("Warm and exact.\n\n**Rating: 9**", 9),
    ("**Rating:** 1", 1),
    ("rating: [[4]]", 4),
    ("Final rating: 3.", 3),
    ("Rating: (5)", 5),
    ("Rating: 2\nRating: 2", 2),
    ("I would rate it 3 of 9 at first.\nRating: 6", 6),
    ("<think>Rating: 2</think>Rating: 6", 6),
    ("hm. Rating: 2\nRating: 2\n</think>\nRating: 6", 6),
]
UNRATED = [
    "", "7", "7/10", "Rating: 7/10", "Rating: 7 out of 9", "nan", "Rating: nan", "inf",
    "Rating: inf", "Rating: 10", "Rating: 0", "Rating: 100", "Rating: 1000", "Rating: -3",
    "Rating: 7.5", "Rating: 7,5", "Rating: 7-8", "[2, 2, 2]", "Rating: [2, 2, 2]", "Rating: seven",
    "Rating: 7\nRating: 8", "Rating: 7 stars", "Score: 7", "Rating 7", "Rating:", "Rating: N",
    "Rating: 7\nThank you.", "Rating: ⁷", "Rating: 1e0", "<think>Rating: 7",
    "<think>Rating: 7</think>", "Rating: 3%", "Rating: A",
]  # fmt: skip


@pytest.mark.parametrize(("reply", "number"), RATED)
def test_a_rating_is_read(reply: str, number: int) -> None:
    assert parse_rating(reply, 1, 9) == number


@pytest.mark.parametrize("reply", UNRATED)
def test_what_is_no_rating_is_not_guessed(reply: str) -> None:
    with pytest.raises(Unreadable, match=r"^unreadable: "):
        parse_rating(reply, 1, 9)


@given(st.integers(0, 200), st.integers(0, 50), st.integers(0, 50))
def test_a_rating_is_within_the_scale_or_unreadable(number: int, low: int, width: int) -> None:
    if low <= number <= low + width:
        assert parse_rating(f"Rating: {number}", low, low + width) == number
    else:
        with pytest.raises(Unreadable, match=f"rating {number} is outside"):
            parse_rating(f"Rating: {number}", low, low + width)


@given(st.text(alphabet="ABab Verdict:\n*tie", max_size=40))
def test_what_is_read_stands_in_the_last_line(reply: str) -> None:
    try:
        letter = parse_verdict(reply)
    except Unreadable:
        return
    last = [line for line in reply.splitlines() if line.strip(" \t*")][-1]
    assert "verdict" in last.lower()
    assert last.split(":")[-1].strip(" *").lower() == letter.lower()


@given(st.text(max_size=40).filter(lambda text: "<" not in text), st.sampled_from(["A", "B"]))
def test_a_thought_does_not_count(thought: str, letter: str) -> None:
    other = "B" if letter == "A" else "A"
    reply = f"{thought}\nVerdict: {other}\n</think>\nVerdict: {letter}"
    assert parse_verdict(reply) == parse_verdict(f"<think>{reply}") == letter
    with pytest.raises(Unreadable):
        parse_verdict(f"<think>{thought}\nVerdict: {letter}")


TAGS = ["think", "thinking", "reasoning"]
PROSE = st.lists(
    st.sampled_from(["tea ", "\n", "A or B: ", *(f"<{tag}>" for tag in TAGS),
                     *(f"<{tag.upper()}>x</{tag}>" for tag in TAGS)]), max_size=8,
).map(lambda parts: "Well, " + "".join(parts))  # fmt: skip
THOUGHTS = st.lists(st.sampled_from(["hm ", "\nVerdict: A\n", "Verdict: B"]), max_size=3)


@given(THOUGHTS, st.sampled_from(TAGS), PROSE, st.sampled_from(["A", "B", "tie"]))
def test_only_a_leading_tag_opens_a_thought(thought, tag, prose, letter):
    reply = f"{prose}\nVerdict: {letter}"
    assert parse_verdict(reply) == letter
    assert without_thought(reply) == reply.strip()
    inside = "".join(thought)
    assert parse_verdict(f" <{tag}>{inside}</{tag}>{reply}") == letter
    assert parse_verdict(f"{inside}</{tag}>\n{reply}") == letter, "the opening tag was eaten"
    with pytest.raises(Unreadable, match="a thought that does not end"):
        parse_verdict(f"\n<{tag}>{inside}\nVerdict: {letter}")


def test_a_reply_without_thought_is_stripped_only() -> None:
    assert without_thought("  I think < that >.  ") == "I think < that >."
