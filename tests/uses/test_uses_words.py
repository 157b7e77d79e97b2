"""Runs of words in answers: how many are different, how many were copied, in any script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.trainers import RUN, share_copied
from palate.uses.decode_result import distinct_bigrams

TEXT = st.lists(st.sampled_from(["tea", "Tea,", "a", "lot", "—", "é"])).map(" ".join)


@given(TEXT, TEXT)
def test_between_spaces_they_are_runs_of_what_split_gives(text: str, shown: str) -> None:
    def runs(of: str, n: int) -> list[tuple[str, ...]]:
        listed = of.lower().split()
        return [tuple(listed[k : k + n]) for k in range(len(listed) - n + 1)]

    pairs, fours = runs(text, 2), runs(text, RUN)
    assert distinct_bigrams(text) == (len({*pairs}) / len(pairs) if pairs else None)
    copied = [run in runs(shown, RUN) for run in fours]
    assert share_copied(text, shown) == (sum(copied) / len(copied) if copied else None)


@pytest.mark.parametrize(
    ("text", "shown", "copied"),
    [
        # Seven Han characters weigh more than four words: two runs, of which the first was shown.
        ("我每天晚上都喝茶", "他说我每天晚上都喝水", 1 / 2),
        ("我每天晚上都喝茶", "他说我每天晚上都喝茶水", 1.0),
        ("喝茶", "喝茶", None),
        ("ชา" * 8, "ชา" * 9, 1.0),
        ("ชา" * 7, "ชา" * 9, None),
    ],
)
def test_copied_letters_are_counted_by_runs_as_long_as_four_words(
    text: str, shown: str, copied: float | None
) -> None:
    assert share_copied(text, shown) == copied


def test_repeated_letters_are_seen() -> None:
    # Four Han characters are two words: 4 different of 9 runs.
    assert distinct_bigrams("我喜欢茶" * 3) == 4 / 9
    assert distinct_bigrams("我喜欢热的红茶") == 1.0
