"""Counts of style: of Latin texts as they ever were, of other scripts by their words and marks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.embeddings.features import FIRST_PERSON, SECOND_PERSON, style_of
from palate.words import count_words

NAMES = ("words", "letters", "by sentence", "lines", "different", "capitals", "shouted", "?", "!",
         ",", "marks", "quotes", "numbers", "links", "I", "you")  # fmt: skip


def counts(text: str) -> dict[str, float]:
    return dict(zip(NAMES, style_of(text).tolist(), strict=True))


def of_latin(text: str) -> Any:
    """Count as was done before there were other scripts."""
    words = re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)?", text.lower())
    n, letters = max(1, len(words)), max(1, sum(c.isalpha() for c in text))
    sentences = max(1, len(re.findall(r"[.!?]+(?:\s|\Z)", text)))
    counted = [
        np.log1p(len(words)), np.log(letters / n), np.log1p(n / sentences) - 1,
        np.log1p(len([line for line in text.splitlines() if line.strip()])), len(set(words)) / n,
        sum(c.isupper() for c in text) / letters,
        sum(w.isupper() and len(w) > 1 for w in re.findall(r"\w+", text)) / n,
        text.count("?") / sentences, text.count("!") / sentences, text.count(",") / n,
        sum(text.count(mark) for mark in ";:—–()") / n,
        sum(text.count(mark) for mark in "\"“”‘'’") / n,
        len(re.findall(r"\d+", text)) / n, len(re.findall(r"https?://|www\.", text)) / n,
        sum(w in FIRST_PERSON for w in words) / n, sum(w in SECOND_PERSON for w in words) / n,
    ]  # fmt: skip
    return np.array(counted, np.float32)


LATIN = st.text(
    st.sampled_from("aZé9_ßİ \t\n.,-–—'’!?…«“#@/\u0301\ufe0f😀Жщ。，？한글")
    | st.characters(max_codepoint=0x52F)
)


@given(LATIN)
def test_latin_vectors_stay_bit_for_bit(text: str) -> None:
    assert style_of(text).tobytes() == of_latin(text).tobytes()


@pytest.mark.parametrize(
    ("text", "words", "sentences", "asks", "commas"),
    [
        ("我喜欢茶，你呢？很好。", 8, 2, 1, 1),
        ("お茶、好き。本当！！", 6, 2, 0, 1),
        ("ฉันชอบชา", 7, 1, 0, 0),
        ("मुझे चाय पसंद है। और तुम?", 6, 2, 1, 0),
        ("هل تحب الشاي، أم القهوة؟ نعم.", 6, 2, 1, 1),
        ("លក្ខណៈ។ល្អ", 6, 1, 0, 0),
    ],
)
def test_other_scripts_are_counted_by_their_words_and_marks(
    text: str, words: int, sentences: int, asks: int, commas: int
) -> None:
    told = counts(text)
    assert told["words"] == pytest.approx(np.log1p(words))
    assert told["by sentence"] == pytest.approx(np.log1p(words / sentences) - 1)
    assert told["?"] == pytest.approx(asks / sentences)
    assert told[","] == pytest.approx(commas / words)
    assert words == count_words(text)


def test_texts_without_spaces_are_told_apart() -> None:
    short, long = counts("茶。"), counts("我每天早上都喝一杯热的红茶，然后看书。")
    assert long["words"] - short["words"] > 1 and long["by sentence"] > short["by sentence"]
