# ruff: noqa: E501  (the prompts are quoted as they are)
"""What a language model is asked to write of a user, and how its reply is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from palate.prompts import (
    Unreadable,
    example_text,
    fitting_parts,
    parse_persona,
    parse_plan,
    persona_prompt,
    plan_prompt,
    plan_text,
)
from palate.records import Choice, Message, Part

POSTS = (
    Part(kind="post", category="kitchen", text="I like it strong.\nMilk first.", rank=0),
    Part(kind="post", text="The boat leaks. </post>", rank=1),
)
CHOICE = Choice(
    question="Tea or coffee?", chosen="Tea, strong.\n\nAlways.", rejected="Not chosen:\nCoffee."
)


def only(messages: tuple[Message, ...]) -> str:
    (message,) = messages
    assert message.role == "user"
    return message.content


def test_a_past_choice_as_one_text() -> None:
    assert example_text(CHOICE) == snapshot("""\
Question:
  Tea or coffee?
Chosen:
  Tea, strong.

  Always.
Not chosen:
  Not chosen:
  Coffee.\
""")


def test_the_planner_is_asked() -> None:
    assert only(plan_prompt("Which tea?", POSTS)) == snapshot("""\
You will see what one person wrote earlier and the question they ask now. Tell what this person probably expects of a good answer.

What the person who asks wrote earlier:

<post about="kitchen">
I like it strong.
Milk first.
</post>
<post>
The boat leaks. <\u200b/post>
</post>

Their question:
Which tea?

List what a good answer for this person must cover, the most important first: one aspect to a line, each line beginning with "- ", at most a dozen words a line. Go by what the person wrote. If that says nothing about this question, write the one word "none". Write the list and nothing else.\
""")


def test_a_persona_from_posts_is_asked_for() -> None:
    assert only(persona_prompt(POSTS)) == snapshot("""\
You will see what one person wrote earlier. Describe this person for somebody who must judge which answers they would prefer.

<post about="kitchen">
I like it strong.
Milk first.
</post>
<post>
The boat leaks. <\u200b/post>
</post>

Write one short paragraph: what this person cares about, how they like an answer to be written, and what puts them off. Say only what the texts above support, and quote nothing. Write the paragraph and nothing else.\
""")


def test_a_persona_from_past_choices_is_asked_for() -> None:
    parts = (Part(kind="example", text=example_text(CHOICE)),)
    assert only(persona_prompt(parts)) == snapshot("""\
You will see what one person chose earlier: questions, the answer this person preferred and the answer they did not. Describe this person for somebody who must judge which answers they would prefer.

<example>
Question:
  Tea or coffee?
Chosen:
  Tea, strong.

  Always.
Not chosen:
  Not chosen:
  Coffee.
</example>

Write one short paragraph: what this person cares about, how they like an answer to be written, and what puts them off. Say only what the texts above support, and quote nothing. Write the paragraph and nothing else.\
""")


def test_parts_are_asked_about_in_the_order_of_their_ranks() -> None:
    assert only(persona_prompt(POSTS[::-1])) == only(persona_prompt(POSTS))
    assert only(plan_prompt("?", POSTS[::-1])) == only(plan_prompt("?", POSTS))


@pytest.mark.parametrize(
    ("reply", "plan"),
    [
        ("- a b\n- c", ("a b", "c")),
        ("* a\n+ b\n• c\n•d\n– e\n— f", tuple("abcdef")),
        ("1. a\n2) b\n(3) c\n4: d\n10. e", tuple("abcde")),
        ("  - a\n    - b", ("a", "b")),
        ("Here is the list:\n\n- a\n\n- b\n\nI hope this helps.", ("a", "b")),
        ("- **Strong** tea\n- __no__ milk", ("Strong tea", "no milk")),
        ("- a long\n  aspect\n- b", ("a long aspect", "b")),
        ("- A\n- b\n- a\n- B", ("A", "b")),
        ("<think>- no\n- none</think>\n- a", ("a",)),
        ("- 3.5 stars or more\n- at -5 °C", ("3.5 stars or more", "at -5 °C")),
        ("- a\r\n- b\r\n", ("a", "b")),
        ("1、浓茶\n2．不要牛奶\n・短", ("浓茶", "不要牛奶", "短")),
        ("- ３．５\n3．5", ("３．５",)),
        ("none", ()),
        ('"None."', ()),
        ("**none**", ()),
    ],
)
def test_a_plan_is_read_with_any_bullets_or_numbers(reply: str, plan: tuple[str, ...]) -> None:
    assert parse_plan(reply) == plan


@pytest.mark.parametrize(
    "reply",
    ["", "  \n", "Strong tea, no milk.", "3.5 stars", "-5 degrees", "**Strong**: tea", "- ", "-a",
     "<think>- a\n- b", "None of this is known to me."],
)  # fmt: skip
def test_what_is_no_list_is_unreadable(reply: str) -> None:
    with pytest.raises(Unreadable, match="unreadable"):
        parse_plan(reply)


@pytest.mark.parametrize(
    ("reply", "plan"),
    [("- a b\n- c d", ("a b",)), ("- a b\n- c d\n", ("a b", "c d")[:1]), ("- a", ()),
     ("- a\n- b\n\nI ho", ("a", "b")), ("- a\n- b\n  and", ("a",))],
)  # fmt: skip
def test_a_list_that_was_cut_off_loses_its_last_item(reply: str, plan: tuple[str, ...]) -> None:
    assert parse_plan(reply, cut_off=True) == plan


WORDS = st.lists(
    st.text(alphabet="abc de", min_size=1).map(lambda text: " ".join(text.split())).filter(bool),
    max_size=6, unique=True,
)  # fmt: skip


@given(WORDS.filter(bool))
def test_a_plan_as_it_is_shown_is_read_as_it_was(aspects: list[str]) -> None:
    assert parse_plan(plan_text(aspects)) == tuple(aspects)


def test_a_plan_is_one_line_per_aspect() -> None:
    assert plan_text(["a\n- b", " c "]) == "- a - b\n- c"
    assert plan_text([]) == ""


@pytest.mark.parametrize(
    ("reply", "cut_off", "persona"),
    [
        (" Likes tea.\n", False, "Likes tea."),
        ("Likes tea", False, "Likes tea"),
        ("Likes tea. Hates 3.5 things. And", True, "Likes tea. Hates 3.5 things."),
        ('Says "no." Often', True, 'Says "no."'),
        ("Likes tea and", True, "Likes tea and"),
        ("她喜欢茶。不喜欢牛奶。还有", True, "她喜欢茶。不喜欢牛奶。"),
        ("उसे चाय पसंद है। और", True, "उसे चाय पसंद है।"),
        ("<think>who?</think>Likes tea.", False, "Likes tea."),
    ],
)
def test_a_persona_is_read(reply: str, cut_off: bool, persona: str) -> None:
    assert parse_persona(reply, cut_off=cut_off) == persona


@pytest.mark.parametrize("reply", ["", " \n", "<think>who", "<think>who?</think>"])
def test_where_nothing_was_written_there_is_no_persona(reply: str) -> None:
    with pytest.raises(Unreadable):
        parse_persona(reply)


@given(st.lists(st.integers(1, 9), max_size=6), st.integers(0, 30))
def test_the_best_ranked_parts_that_fit_are_kept(sizes: list[int], window: int) -> None:
    parts = tuple(Part(kind="post", text="x" * n, rank=k) for k, n in enumerate(sizes))
    kept = fitting_parts(parts, lambda some: sum(len(p.text) for p in some), window)
    assert kept == parts[: len(kept)]
    assert sum(len(part.text) for part in kept) <= window
    assert len(kept) == len(parts) or sum(sizes[: len(kept) + 1]) > window
