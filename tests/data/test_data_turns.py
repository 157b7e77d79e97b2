"""Earlier turns of a question: read and checked, and no row without any is another than it was."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations import QUESTION, TURNS, row
from palate.benchmarks import Dataset, couple_votes
from palate.comparison import evaluate
from palate.contexts import build_context
from palate.data import read_question, read_turns
from palate.errors import DataError
from palate.evaluation import make_rows
from palate.prompts import pair_prompt, plan_prompt, rating_prompt
from palate.quality import gold_content
from palate.records import Choice, Message, PreferencePair, Question, choices_of
from palate.seeding import digest
from palate.session import default_session
from row_files import load

PLAIN: list[dict[str, Any]] = [
    {"id": "1", "user_id": "ann", "question": "Which tea?", "chosen": "Assam.", "rejected": "Mint.",
     "profile": [{"id": "p", "text": "I drink it strong.", "category": "tea"},
                 {"id": "q", "text": "Milk in tea spoils it."}]},
    {"id": "2", "user_id": "bob", "question": "Which tea?", "chosen": "Mint.", "rejected": "Assam.",
     "profile": [{"id": "r", "text": "Herbs grow on my balcony."}]},
    {"id": "3", "user_id": "cy", "question": "Which cup?", "chosen": "Blue.", "rejected": "Red."},
]  # fmt: skip
PAST = {"id": "h1", "user_id": "ann", "question": "Milk?", "chosen": "No.", "rejected": "Yes."}


def test_the_turns_come_before_the_question() -> None:
    pair = read_question(row("1", "ann"), subset="all")
    assert pair.to_row()["turns"] == TURNS
    assert read_question(pair.to_row(), subset="all") == pair
    assert [m.model_dump() for m in pair.messages] == [
        *TURNS, {"role": "user", "content": QUESTION},
    ]  # fmt: skip


@pytest.mark.parametrize("none", [{}, {"turns": None}, {"turns": []}])
def test_rows_without_turns_keep_every_byte(none: dict[str, Any]) -> None:
    """The literals were computed before a row could hold turns."""
    data = Dataset.from_rows("teas", [{**it, **none} for it in PLAIN])
    past = Dataset.from_rows("past", [{**PAST, **none}]).pairs
    assert data.content_hash == "313bccd8bea801a4af225a0ef4c8fe44160a30149036d56651d5c894de372591"
    assert [it.content for it in data.rows] == [
        "051b59e25ea235bd", "b6675ab60d818c22", "0cadacc7d452286e",
    ]  # fmt: skip
    assert couple_votes(data) == {"1": "2", "2": "1"}
    slates = {
        "none": "d3c514113a6c9f4b", "profile:2": "42b2c2d714b36b65",
        "stranger:2": "0602bb57843767f7", "profile:2?as=turns": "e5d4cf3c077ff9fd",
        "examples:2": "26c335a62890f919",
    }  # fmt: skip
    whole = data.with_history(past)
    for spec, expected in slates.items():
        rows = make_rows(whole, build_context(spec, default_session()), seed=0)
        assert digest([rows.slate(k).id for k in range(3)])[:16] == expected, spec
    slate = make_rows(whole, build_context("profile:2", default_session()), seed=0).slate(0)
    prompts = (
        pair_prompt(slate, 0, 1, "text"), rating_prompt(slate, 0, "letter", 1, 9),
        plan_prompt(data.rows[0].text, slate.shown),
    )  # fmt: skip
    assert digest([m.content for it in prompts for m in it])[:16] == "25cc2cf3bc3aa46a"
    history = {user: [c.model_dump() for c in own] for user, own in choices_of(past).items()}
    assert digest(history)[:16] == "3ddab8bbabc00136"
    assert gold_content(data.rows[0])[:16] == "876914721c338491"
    assert "turns" not in data.rows[0].to_row()


def test_a_run_of_rows_without_turns_keeps_every_byte() -> None:
    run = evaluate(Dataset.from_rows("teas", PLAIN), "random", "none", root=None)
    assert digest(list(run.lines()))[:16] == "bd71cbedb27a91b3"


WRONG: list[tuple[object, str, str]] = [
    ("Tea?", "turns", "expected a list of objects"),
    (["Tea?"], "turns", "expected a list of objects"),
    ([{"content": "Tea?"}], "turns[0].role", "expected user, assistant or system, got None"),
    ([{"role": "human", "content": "Tea?"}], "turns[0].role", "got 'human'"),
    ([{"role": ["user"], "content": "Tea?"}], "turns[0].role", "got ['user']"),
    ([{"role": "tool", "content": "21 °C"}], "turns[0].role", "got 'tool'"),
    ([{"role": "user"}], "turns[0].content", "expected text, got NoneType"),
    ([{"role": "user", "content": " "}], "turns[0].content", "expected text, got an empty string"),
    ([{"role": "user", "content": [{"type": "text"}]}], "turns[0].content", "got list"),
    ([{"role": "user", "content": "\ud800"}], "turns[0].content", "half a surrogate pair"),
    ([{"role": "assistant", "content": "?", "tool_calls": [1]}], "turns[0].tool_calls", "else"),
    ([TURNS[1], {"role": "system", "content": "Be brief."}], "turns[1].role", "only the first"),
]  # fmt: skip


@pytest.mark.parametrize(("turns", "field", "says"), WRONG)
def test_a_fault_in_a_turn_is_named(turns: object, field: str, says: str) -> None:
    with pytest.raises(DataError) as caught:
        read_question(row("1", "ann") | {"turns": turns}, subset="all")
    assert caught.value.field == field and says in caught.value.problem
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("system", [{}, {"system": "Be brief."}])
def test_turns_of_a_file_are_read_as_json_and_refused_where_they_are_none(
    system: dict[str, str], tmp_path: Path
) -> None:
    before = [{"role": "user", "content": "Hot or cold?"}]
    rows = [row(n, "ann") | {"turns": turns} | system
            for n, turns in (("1", before), ("2", json.dumps(before)), ("3", 3))]  # fmt: skip
    loaded = load(tmp_path / "rows.jsonl", rows)
    turns = [[turn.content for turn in question.turns] for question in loaded.rows]
    assert turns == [[*system.values(), "Hot or cold?"]] * 2
    assert [(bad.line, bad.field) for bad in loaded.bad_rows] == [(3, "turns")]


def test_cycles_are_looked_for_again_after_a_bad_row(tmp_path: Path) -> None:
    assert gc.isenabled()
    with pytest.raises(DataError):
        load(tmp_path / "rows.jsonl", [{"id": "1", "question": ""}], skip=False)
    assert gc.isenabled()
    gc.disable()
    try:
        load(tmp_path / "rows.jsonl", [row("1", "ann")])
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_an_exporter_leaves_empty_in_a_turn_is_no_fault() -> None:
    said = {"role": "assistant", "content": "Tea.", "tool_calls": None, "name": "", "parts": []}
    assert read_turns([said]) == (Message(role="assistant", content="Tea."),)


ROLES = st.sampled_from(["user", "assistant"])
SAID = st.lists(st.tuples(ROLES, st.text(st.characters(codec="utf-8"), min_size=1)), max_size=6)


@given(SAID.filter(lambda said: all(text.strip() for _, text in said)))
def test_messages_take_turns_and_lose_no_text(said: list[tuple[str, str]]) -> None:
    turns = [{"role": role, "content": text} for role, text in said]
    question = read_question({"id": 1, "question": "So?", "turns": turns}, subset="all")
    messages = question.messages
    assert all(a.role != b.role for a, b in zip(messages, messages[1:], strict=False))
    assert messages[-1].role == "user" and messages[-1].content.endswith("So?")
    texts = [text for _, text in said] + ["So?"]
    assert "\n\n".join(message.content for message in messages) == "\n\n".join(texts)
    assert read_question(question.to_row(), subset="all") == question


def of(turns: list[tuple[str, str]], text: str) -> PreferencePair:
    return PreferencePair(
        id="1", user_id="u", text=text, chosen="a", rejected="b",
        turns=tuple(Message(role=role, content=said) for role, said in turns),  # type: ignore[arg-type]
    )  # fmt: skip


@given(SAID, SAID, st.sampled_from(["So?", "And?"]), st.sampled_from(["So?", "And?"]))
def test_rows_ask_the_same_where_turns_are_alike_too(
    some: list[tuple[str, str]], others: list[tuple[str, str]], text: str, other: str
) -> None:
    ours, theirs = of(some, text), of(others, other)
    alike = (some, text) == (others, other)
    assert (ours.key == theirs.key) is (ours.content == theirs.content) is alike
    assert Question(id="1", user_id="u", text=text).key == text
    choices = [c for it in (ours, theirs) for c in choices_of([it])["u"]]
    assert [it.key for it in choices] == [ours.key, theirs.key]
    assert ("turns" in choices[0].model_dump()) is bool(some)
    assert Choice.model_validate(choices[0].model_dump()) == choices[0]


def test_the_form_of_a_turn_makes_no_other_question() -> None:
    ours, theirs = (
        of([("user", said)], "So?") for said in ("Caf\u00e9\r\n please", "Cafe\u0301 please ")
    )
    assert ours.key != theirs.key and ours.normal_key == theirs.normal_key


def test_a_post_that_holds_an_earlier_turn_is_left_out_and_a_short_turn_is_in_many() -> None:
    told: list[str] = []
    texts = [f"Posted: {TURNS[1]['content']}", "Swimming is fun.", "Thanks! I swim."]
    turns = [*TURNS, {"role": "user", "content": "Thanks!"}]
    posts = [{"id": str(k), "text": text} for k, text in enumerate(texts)]
    pair = read_question(
        row("1", "ann") | {"profile": posts, "turns": turns}, subset="all", left_out=told
    )
    assert [post.id for post in pair.profile] == ["1", "2"] and told == ["profile[0].text"]
