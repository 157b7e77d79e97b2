"""One table of marks: what replies say behind thoughts, and that no file has a second one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mark_families import FAMILIES
from palate.marks import OPEN_THOUGHT, OpenThought, after_thought, end_at, prompt_end
from palate.prompts import Unreadable, parse_rating, parse_verdict

SOURCE = Path(__file__).resolve().parents[1] / "src" / "palate"
TABLE = SOURCE / "marks.py"
MARK = re.compile(
    r"<\\?[|｜][^<>]{2,}\\?[|｜]?>|\[\\?\|.{2,}\|\]|◁|</?(?:seed:)?(?:think|thinking|thought|reasoning)>"
    r"|<(?:eos|pad|end_of_turn|start_of_turn)>|\[/?(?:INST|THINK|EOS|PAD)\]|</s>"
    r"|\b(?:Human|Assistant|USER|ASSISTANT):"
)
"""What a table of marks would hold, as a text or a regular expression."""
THOUGHTS = [family.thought for family in FAMILIES if family.thought]


def spelt(source: str) -> list[str]:
    """Return the marks in the texts of a file, those of docstrings left out."""
    if not MARK.search(source):
        return []
    tree = ast.parse(source)
    docs = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]
    return [mark for text in texts for mark in MARK.findall(text)]


def test_no_mark_is_spelt_outside_the_table():
    second = {
        str(path.relative_to(SOURCE)): marks
        for path in SOURCE.rglob("*.py")
        if path != TABLE and (marks := spelt(path.read_text(encoding="utf-8")))
    }
    assert second == {}


@pytest.mark.parametrize("table", [
    'ENDS = ("<|im_end|>",)', 'OPEN = re.compile(r"<\\|channel\\|>")', 'END = "[|endofturn|]"',
    'TAG = "</think>"', 'EOS = "<｜end▁of▁sentence｜>"', 'PAD = f"<pad>{x}"', 'R = "Human: "',
])  # fmt: skip
def test_a_second_table_is_seen(table):
    assert spelt(table)
    assert not spelt(f'def f():\n    """As in {table!r}."""\n'.replace("\\", "/"))


@pytest.mark.parametrize(("opening", "ending"), THOUGHTS)
def test_rewards_and_judges_read_behind_every_familys_thought(opening, ending):
    assert after_thought(f"{opening}Milk? Or 10.{ending}Tea.") == "Tea."
    verdicts = f"{opening}\nVerdict: A\n{ending}\nB is warm.\nVerdict: B"
    assert parse_verdict(verdicts) == "B"
    assert parse_rating(f"{opening}\nRating: 2\n{ending}Rating: 7", 1, 9) == 7
    with pytest.raises(OpenThought, match=OPEN_THOUGHT):
        after_thought(f"{opening}The user likes mint")
    with pytest.raises(Unreadable, match=OPEN_THOUGHT):
        parse_verdict(f"{opening}Hm.\nVerdict: A")


@pytest.mark.parametrize(("reply", "answer"), [
    ("<thought>Milk?</thought>Tea.", "Tea."),
    ("<|channel|>analysis…final<|message|>Verdict: B", "Verdict: B"),
    ("<|start|>assistant<|channel|>analysis<|message|>A?<|end|><|start|>assistant<|channel|>final"
     "<|message|>Tea.", "Tea."),
    ("A?<|end|><|start|>assistant<|channel|>final<|message|>Tea.", "Tea."),  # eaten by a server
    ("analysisMilk? Tea?assistantfinalTea.", "Tea."),  # decoded without special tokens
    ("analysis of tea: good", "analysis of tea: good"),
    ("<|channel|>final<|message|>Tea.", "Tea."),
    ("Milk?[/THINK]Tea.", "Tea."),
    ("Milk?◁/think▷Tea.", "Tea."),
    ("<longcat_think>Milk?</longcat_think>Tea.", "Tea."),
    ("<|think|>Milk?<|end|><|begin|>assistant<|content|>Tea.", "Tea."),
    ("<|think:start|>Milk?<|think:end|>Tea.", "Tea."),
    ("<think>Milk?</think>\n<answer>\nTea.\n</answer>", "Tea."),  # Hunyuan
    ("Milk?</think>\n\n<response>\nTea.\n</response>\n", "Tea."),  # ERNIE
    ("<|START_THINKING|>Milk?<|END_THINKING|><|START_RESPONSE|>Tea.<|END_RESPONSE|>", "Tea."),
    ("<|begin_of_thought|>A?<|end_of_thought|>\n<|begin_of_solution|>Tea.", "Tea."),
    ("<answer>Tea.</answer>", "<answer>Tea.</answer>"),  # without a thought it is the text
    ("Here is my response: Tea.", "Here is my response: Tea."),
    ("<b>Tea</b> [1]", "<b>Tea</b> [1]"),
    ("A [thought] apart: tea.", "A [thought] apart: tea."),
    ("<thinker>Tea.", "<thinker>Tea."),
])  # fmt: skip
def test_what_a_reply_says(reply, answer):
    assert after_thought(reply) == answer


@pytest.mark.parametrize("mark", ["<|reasoning|>", "<my-thinking>", "[[THINKING]]", "<|thought|>"])
def test_a_thought_in_unknown_marks_is_refused_by_name(mark):
    with pytest.raises(OpenThought, match=re.escape(f"does not know ({mark})")):
        after_thought(f"{mark}Milk?\nTea.")
    assert prompt_end(f"<|bot|>{mark}\n") == ("<|bot|>", mark, None)


@pytest.mark.parametrize(("prompt", "mark"), [
    ("<|bot|><reasoning>\n", "<reasoning>"),
    ("<|bot|><think>\nWell, the user", "<think>"),  # a thought that is begun
    ("<|bot|>◁think▷", "◁think▷"),
    ("<|end|><|start|>assistant<|channel|>analysis", "<|channel|>analysis"),
    ("<|bot|><think>\n\n</think>\n\n", ""),
    ("USER: What is\n<think>\nfor? ASSISTANT:", ""),
    ("What does <think> mean?", ""),
    ("<|bot|><|no_think|>", ""),
    ("<|bot|>", ""),
    ("", ""),
])  # fmt: skip
def test_a_prompt_that_ends_within_a_thought_is_known(prompt, mark):
    end = prompt_end(prompt)
    assert end.mark == mark
    assert prompt_end(end.closed).mark == ""
    assert end.bare == (prompt[: prompt.index(mark)] if mark else prompt)


@pytest.mark.parametrize("text", [
    "Tea.</b>", "Tea [1]", "x[i]", "<br>", "<div>", "[Tea](url)", "a|b>", "<|>", "[THE END]",
    "[END]", "</div>", "<a@b.org>", "</answer>", "[ ]", "->", "<3", "<https://a.org/b>",
    "[[Tea|tea]]", ">",
])  # fmt: skip
def test_ordinary_text_ends_no_turn(text):
    assert end_at(text, len(text)) == -1


@given(st.text(max_size=60), st.sampled_from(THOUGHTS))
def test_whatever_a_thought_holds_the_answer_is_behind_its_last_end(thought, marks):
    opening, ending = marks
    for inside in (thought, f"{thought}{ending}{thought}"):
        try:
            answer = after_thought(f"{opening}{inside}{ending}Tea.")
        except OpenThought:
            assert re.search(r"think|thought|reason", inside, re.I)
            continue
        assert answer.endswith("Tea.")
