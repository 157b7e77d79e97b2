"""Latin text is counted as `str.split`, `\\w+` and bm25s do it; other scripts by their letters."""

from __future__ import annotations

import re

import bm25s
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate import words

SPACED = st.text(
    st.sampled_from("aZé9_ßİ \t\n\x1c\u00a0\u2028.,-–—'’!?…«“#@/\u0301\ufe0f😀ЖщΣςαع한글")
    | st.characters(max_codepoint=0x58F)
)
"""Text without letters of scripts without spaces."""
LETTERS = st.text(st.sampled_from("茶好喝々〇かガーｶﾞำน้ชาဗမာខ្មែརབོད，。「」、a9 .é\n"))


@given(SPACED, st.integers(1, 9))
def test_between_spaces_nothing_moves(text: str, n: int) -> None:
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    assert words.split_words(text) == text.split()
    assert words.count_words(text) == len(text.split())
    assert words.cut_words(text, n) == (text if len(ends) <= n else text[: ends[n - 1]])
    assert words.opening(text, n) == text[:n]
    assert words.weight(text.split()) == len(text.split())
    grams = [" ".join(text.split()[k : k + n]) for k in range(len(text.split()) - n + 1)]
    assert words.runs(text.split(), n) == grams
    assert list(words.pieces(text.split(), n)) == grams[::n]


LATIN = st.text(
    st.sampled_from("aZé9_ßİ \t\n.,-–—'’!?…«“#@/\u0301\ufe0f😀ЖщΣςα")
    | st.characters(max_codepoint=0x58F)
)


@given(LATIN, st.lists(LATIN, max_size=3))
def test_latin_words_and_terms_are_those_of_before(text: str, more: list[str]) -> None:
    assert words.plain_words(text) == re.findall(r"\w+", text.lower())
    how = {"stopwords": "en", "show_progress": False, "return_ids": False}
    spaced, letters = zip(*map(words.search_terms, [text, *more]), strict=True)
    assert not any(letters)
    assert bm25s.tokenize(list(spaced), token_pattern=words.TERM, **how) == bm25s.tokenize(
        [text, *more], **how
    )


@pytest.mark.parametrize(
    ("text", "count", "plain"),
    [
        ("晚上喝什么茶好？", 7, 7),
        ("我用GPT-4写信，OK？", 6, 7),  # 我 用 GPT-4 写 信， OK？; gpt and 4 apart
        ("「お茶」 ください", 6, 6),
        ("ｶﾞｽとガス", 5, 5),  # the mark of a half-width letter is part of it
        ("か\u3099す", 2, 2),
        ("น้ำชา", 3, 3),  # a tone and am stand on their letter
        ("ກິນເຂົ້າ", 5, 5),
        ("ទឹកតែ", 3, 3),
        ("ကျွန်တော်", 3, 3),
        ("བོད་ཇ", 3, 3),
        ("차를 마셔요", 2, 2),  # Korean has spaces
        ("हिन्दी में चाय", 3, 3),  # and so has Hindi, whose vowels are marks
        ("๑๒ ชา", 3, 3),  # Thai digits are a number
        ("— 茶 —", 3, 1),
    ],
)
def test_letters_are_words_where_there_are_no_spaces(text: str, count: int, plain: int) -> None:
    assert (words.count_words(text), len(words.plain_words(text))) == (count, plain)


@given(LETTERS, st.integers(1, 30))
def test_a_cut_text_has_so_many_words_and_is_its_beginning(text: str, n: int) -> None:
    cut = words.cut_words(text, n)
    assert text.startswith(cut)
    assert words.count_words(cut) == min(n, words.count_words(text))
    assert "".join(words.split_words(text)) == "".join(text.split())


@given(LETTERS, LETTERS, LETTERS)
def test_a_run_that_weighs_enough_holds_a_piece_wherever_it_begins(
    before: str, shared: str, after: str
) -> None:
    run, n = words.plain_words(shared), 2
    if words.weight(run) >= 2 * n + 2:
        there = [*words.plain_words(before), *run, *words.plain_words(after)]
        assert not set(words.pieces(there, n)).isdisjoint(words.runs(run, n))


@given(st.lists(st.sampled_from(["茶", "น้", "カ", "ခ", "ཇ", "tea"])), st.integers(1, 5))
def test_a_run_is_the_shortest_that_weighs_n_words(listed: list[str], n: int) -> None:
    brute = []
    for k in range(len(listed)):
        long = [j for j in range(k, len(listed) + 1) if words.weight(listed[k:j]) >= n - 1e-9]
        brute += [" ".join(listed[k : long[0]])] if long else []
    assert words.runs(listed, n) == brute


def test_so_much_text_is_thirteen_words() -> None:
    sizes = {"茶": 22, "カ": 52, "ช": 52, "ខ": 44, "ཇ": 44, "ခ": 33, "tea": 13}
    for letter, size in sizes.items():
        assert len(words.runs([letter] * size, 13)) == 1, letter
        assert words.runs([letter] * (size - 1), 13) == [], letter


def test_forms_by_width_and_composition_are_one() -> None:
    assert words.plain_words("ﾃﾞｰﾀ ＧＰＴ") == words.plain_words("データ GPT")
    assert words.search_terms("ﾃﾞｰﾀ")[1] == words.search_terms("デ\u30fcタ")[1] == ["デー", "ータ"]
    assert (
        words.search_terms("한글")[1] == words.search_terms("\u1112\u1161\u11ab글")[1] == ["한글"]
    )
    assert words.search_terms("茶")[1] == ["茶"]


CLUSTERS = st.text(
    st.sampled_from("aé茶。कषि्ाน้ำဗဘို့\u0301\u200d\ufe0f👩🏽👧🇫🇷한\u1112\u1161\u11ab. ")
    | st.characters()
)


@given(CLUSTERS, st.integers(2, 9))
def test_a_shortened_text_ends_between_two_letters(text: str, longest: int) -> None:
    regex = pytest.importorskip("regex")
    short = words.shortened(text, longest)
    if len(text) <= longest:
        assert short == text
        return
    start = short.removesuffix(" …")
    assert text.startswith(start) and len(start) <= longest
    ends = {match.end() for match in regex.finditer(r"\X", text)}
    rest = text[len(start) :]
    whole = {len(text) - len(rest.lstrip())} | {len(start)}
    held = any(match.end() - match.start() >= longest for match in regex.finditer(r"\X", text))
    assert whole & ends or not start or held


@pytest.mark.parametrize(
    ("text", "longest", "short"),
    [
        ("one two three", 9, "one two …"),
        ("one two three", 7, "one two …"),
        ("我 每天早上都喝一杯热的红茶", 8, "我 每天早上都喝 …"),
        ("ฉันชอบดื่มน้ำชา", 8, "ฉันชอบ …"),
        ("ฉันชอบดื่มน้ำชา", 12, "ฉันชอบดื่ม …"),
        ("क्षि" * 4, 6, "क्षि …"),
        ("លក្ខណៈ", 3, "ល …"),
        ("👩\u200d👩\u200d👧" * 3, 7, "👩\u200d👩\u200d👧 …"),
        ("🇫🇷🇩🇪🇮🇹", 3, "🇫🇷 …"),
        ("x" * 12, 5, "xxxxx …"),
    ],
)
def test_a_text_is_shortened_at_its_words(text: str, longest: int, short: str) -> None:
    assert words.shortened(text, longest) == short
