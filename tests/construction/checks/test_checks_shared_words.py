"""Thirteen words shared with a profile or a foreign file: planted, and by brute force."""

from __future__ import annotations

import gzip
import json

import pytest
from checked_rows import NUMBERS, checked, post, row, set_of, words
from hypothesis import given
from hypothesis import strategies as st

from palate.construction.audit import CheckOptions
from palate.construction.leaks import RUN
from palate.construction.text_checks import leak_faults
from palate.errors import DataError
from palate.words import plain_words, runs

PROFILE = [post(f"Old {words(1, 12)}", "p1"), post(f"So: {words(2, 14)}!", "p2")]


def test_what_shares_thirteen_words_with_which_post_is_named():
    results = checked(
        row("1", text=words(2, 14), chosen=words(1, 15).upper(), profile=PROFILE),
        row("2", text=words(1, 13), rejected=words(3, 15), narrative="Tea", profile=PROFILE),
        row("3", narrative=f"{words(2, 8)}, {words(9, 14)}", profile=PROFILE),
        row("4", text=words(2, 14), profile=PROFILE[:1]),
        row("5", text=words(2, 14)),
    )
    assert results["leak"].details == (
        "question: 13 words of post p2; chosen: 13 words of post p2",
        None,
        "narrative: 13 words of post p2",
        None,
        None,
    )
    assert results["leak"].counts.n_checked == 4
    assert checked(row())["leak"].counts.needs == "profiles"


@given(
    st.lists(
        st.tuples(*[st.lists(st.sampled_from("ab茶"), max_size=40).map(" ".join)] * 3),
        min_size=1,
        max_size=3,
    )
)
def test_leaks_are_those_of_brute_force(texts):
    rows = [
        row(str(k), text=f"x {asked}", chosen=f"y {answer}", profile=[post(written)])
        for k, (asked, answer, written) in enumerate(texts)
    ]

    def share(first: str, second: str) -> bool:
        sets = [set(runs(plain_words(text), RUN)) for text in (first, second)]
        return not sets[0].isdisjoint(sets[1])

    expected = [
        [
            f"{name}: 13 words of post p1"
            for name, text in (("question", pair.text), ("chosen", pair.chosen))
            if share(text, pair.profile[0].text)
        ]
        for pair in rows
    ]
    assert leak_faults(set_of(*rows)) == expected


def against(*paths):
    rows = (
        row("1", text=words(1, 13), chosen="Some tea."),
        row("2", narrative=words(3, 15)),
        row("3", text=words(2, 13)),
    )
    return checked(*rows, options=CheckOptions(against=paths))["contaminated"]


def test_a_foreign_file_shares_thirteen_words(tmp_path):
    nested = {"id": 7, "messages": [{"role": "user", "content": f"Say {words(1, 14)}"}, None, 1.5]}
    lines = tmp_path / "train.jsonl.gz"
    lines.write_bytes(gzip.compress(f"{json.dumps({'a': 'b'})}\n{json.dumps(nested)}\n".encode()))
    assert against(lines).details == ("question: 13 words of train.jsonl.gz:2", None, None)
    table = tmp_path / "train.csv"
    table.write_text(f'a,b\nx,"{words(1, 15)}"\n')
    assert against(lines, table).details == (
        "question: 13 words of train.jsonl.gz:2",
        "narrative: 13 words of train.csv:2",
        None,
    )
    assert against(lines).counts.n_checked == 3
    assert checked(row())["contaminated"].counts.needs == "--against FILE"


def test_words_of_a_plain_text_run_over_the_ends_of_lines(tmp_path):
    wrapped = tmp_path / "book.txt"
    wrapped.write_text("\n".join(["Once", *NUMBERS[:6], "", " ".join(NUMBERS[6:13]), "end"]))
    assert against(wrapped).details == ("question: 13 words of book.txt:9", None, None)
    wrapped.write_text("\n".join([*NUMBERS[:6], "but", *NUMBERS[6:13]]))
    assert against(wrapped).details == (None, None, None)


def test_a_foreign_file_that_cannot_be_read_is_named(tmp_path):
    broken = tmp_path / "train.jsonl"
    broken.write_text('{"a": "b"}\n{"a": \n')
    with pytest.raises(DataError, match=r"train\.jsonl:2: not JSON"):
        against(broken)
    with pytest.raises(DataError, match="no such file or folder"):
        against(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="cannot be read"):
        against(tmp_path / "none.txt")
    book = tmp_path / "book.txt"
    book.write_bytes(b"Tea\ncaf\xe9\n")
    with pytest.raises(DataError, match=r"book\.txt:2: not UTF-8 \(byte 4\)"):
        against(book)
