from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairs import rows_of
from palate.benchmarks import load_benchmark
from palate.contexts.recorded import take_words
from palate.evaluation import ContextRow
from palate.records import Post, PreferencePair
from palate.words import count_words


def pair(user: str, texts: list[str], name: str = "", **fields: Any) -> PreferencePair:
    name = name or user
    posts = tuple(Post(id=f"{name}{k}", text=text) for k, text in enumerate(texts))
    row = {"text": f"What would suit {name}?", "chosen": f"Yes to {name}.",
           "rejected": f"No to {name}."}  # fmt: skip
    return PreferencePair(id=name, user_id=user, profile=posts, **{**row, **fields})


def rows(pairs: list[PreferencePair], spec: str = "stranger:2?order=recent") -> list[ContextRow]:
    return rows_of(pairs, spec)


def texts(row: ContextRow) -> list[str]:
    return [part.text for part in row.slate.shown]


def test_a_stranger_shows_as_many_words_the_last_post_cut() -> None:
    ann, bob = rows([pair("ann", ["a b c", "d e"]), pair("bob", ["p q  r s", "t u v w"])])
    assert texts(ann) == ["t u v w", "p"]
    assert (ann.shown.own_words, ann.shown.shortfall_words) == (5, 0)
    assert texts(bob) == ["d e", "a b c"]
    assert (bob.shown.own_words, bob.shown.shortfall_words) == (8, 3)


def test_the_words_are_those_of_the_own_shown_posts_only() -> None:
    ann, _ = rows([pair("ann", ["a b c", "d e"]), pair("bob", ["p q r", "s t u"])],
                  "stranger:1?order=recent")  # fmt: skip
    assert (texts(ann), ann.shown.own_words) == (["s t"], 2)


def test_cut_posts_keep_their_spaces() -> None:
    ann, _ = rows([pair("ann", ["a b c"]), pair("bob", [" p\n q\t r  s "])])
    assert texts(ann) == [" p\n q\t r"]


LEAKS = [
    "I wonder:  WHAT would\nsuit ann? Hm.",
    "They said yes to  ANN. Indeed.",
    "no to ann. never",
]


@pytest.mark.parametrize("leak", LEAKS)
def test_a_post_that_gives_the_answer_away_is_dropped_and_counted(leak: str) -> None:
    ann, bob = rows([pair("ann", ["a b c"]), pair("bob", ["p q", leak])])
    assert (texts(ann), ann.shown.leaks_dropped, ann.shown.shortfall_words) == (["p q"], 1, 1)
    assert bob.shown.leaks_dropped == 0


def test_only_the_first_120_characters_are_looked_for_and_only_the_first_line() -> None:
    long = "w" * 119
    question = "A question?\nIts second line."
    ann = pair("ann", ["a b c"], text=question, chosen=long + "x one", rejected=long + "z two")
    posts = [long + "X, other", long + "y one", "Its second line.", "So: a  QUESTION? Hm."]
    (row, _) = rows([ann, pair("bob", posts)])
    assert row.shown.leaks_dropped == 2
    assert texts(row) == ["Its second line."]


def test_where_every_post_leaks_nothing_is_shown_and_all_is_short() -> None:
    ann, _ = rows([pair("ann", ["a b c"]), pair("bob", LEAKS)])
    assert (ann.slate.shown, ann.shown.leaks_dropped, ann.shown.shortfall_words) == ((), 3, 3)
    assert ann.shown.own_words == 3


def test_posts_are_gathered_over_all_rows_of_the_stranger() -> None:
    first = pair("bob", ["p one", "p two"], "b")
    second = pair("bob", ["p three"], "c")
    twice = second.model_copy(update={"profile": (*second.profile, first.profile[1])})
    ann = rows([pair("ann", ["x " * 50]), first, twice], "stranger:9?order=recent")[0]
    assert sorted(texts(ann)) == ["p one", "p three", "p two"]
    assert ann.shown.shortfall_words == 44


def test_a_mirror_partner_is_never_the_stranger() -> None:
    users = [pair("ann", ["a a"], mirror_of="bob"), pair("bob", ["b b"], mirror_of="ann"),
             pair("cy", ["c c"]), pair("di", ["d d"])]  # fmt: skip
    for seed in range(20):
        made = rows_of(users, "stranger:1", seed)
        shown = {row.question.user_id: texts(row) for row in made}
        assert shown["ann"] in (["c c"], ["d d"])
        assert shown["bob"] in (["c c"], ["d d"])
        assert shown["cy"] in (["a a"], ["b b"], ["d d"])


def test_only_partners_are_left_so_nothing_is_shown() -> None:
    users = [pair("ann", ["a a"], mirror_of="bob"), pair("bob", ["b b"], mirror_of="ann")]
    for row in rows(users):
        assert (row.slate.shown, row.shown.own_words, row.shown.shortfall_words) == ((), 2, 2)


def test_strangers_have_posts_and_users_without_are_shown_nothing() -> None:
    users = [pair("ann", ["a a"]), pair("bob", []), pair("cy", ["c c"]), pair("di", [])]
    ann, bob, cy, di = rows(users)
    assert (texts(ann), texts(cy)) == (["c c"], ["a a"])
    for row in (bob, di):
        assert (row.slate.shown, row.shown.own_words, row.shown.shortfall_words) == ((), 0, 0)


def test_a_stranger_is_of_the_same_subset() -> None:
    users = [
        pair(name, [f"{name} {name}"], subset="x" if name in "abc" else "y") for name in "abcdef"
    ]
    for row in rows(users):
        (text,) = texts(row)
        assert text[0] != row.question.user_id
        assert (text[0] in "abc") == (row.question.user_id in "abc")


def test_without_user_ids_each_row_has_a_stranger_of_its_own() -> None:
    from palate.data import read_question

    made = [
        read_question(
            {"id": k, "question": f"q{k}?", "chosen": f"yes {k}", "rejected": f"no {k}",
             "profile": [{"id": "same", "text": f"post {k}"}]}, subset="all",
        )
        for k in range(6)
    ]  # fmt: skip
    shown = [texts(row) for row in rows(made)]
    texts_of_all = [[f"post {k}"] for k in range(6)]
    assert all(text in texts_of_all and text != own
               for text, own in zip(shown, texts_of_all, strict=True))  # fmt: skip


def test_a_stranger_is_drawn_for_every_row() -> None:
    pairs = load_benchmark("tasting")
    made = rows_of(pairs, "stranger:8", seed=3)
    owner = {p.text: p.id.rsplit("-", 1)[0] for q in pairs.pairs for p in q.profile}
    shown: dict[str, set[str]] = {}
    for row in made:
        for part in row.slate.shown:
            whole = next(text for text in owner if text.startswith(part.text))
            shown.setdefault(row.question.user_id, set()).add(owner[whole])
    assert len(shown) == 32
    assert sum(map(len, shown.values())) > 80, "of 96 rows, some by chance with the same stranger"
    assert all(mine not in whose for mine, whose in shown.items())


def test_several_draws_are_rows_after_one_another_without_a_stranger_twice() -> None:
    users = [pair(name, [f"{name} {name}"]) for name in ("ann", "bob", "cy", "di")]
    one, four = (rows_of(users, spec, seed=2) for spec in ("stranger:1", "stranger:1?draws=4"))
    assert (len(one), len(four), four.draws) == (4, 16, 4)
    assert [four.id(k) for k in range(4)] == ["ann", "ann#1", "ann#2", "ann#3"]
    for k, user in enumerate(users):
        drawn = list(four[4 * k : 4 * k + 4])
        assert drawn[0].slate == one[k].slate
        shown = [texts(row) for row in drawn]
        others = [[post.text for post in other.profile] for other in users if other is not user]
        assert sorted(shown[:3]) == sorted(others)
        assert shown[3] == [], "there are three third users"
        assert [row.shown.no_stranger for row in drawn] == [False, False, False, True]
        assert {row.slate.candidates for row in drawn} == {drawn[0].slate.candidates}
        assert {four.chosen_position(j) for j in range(4 * k, 4 * k + 4)} == {
            one.chosen_position(k)
        }
    assert four.no_stranger.sum() == 4


@pytest.mark.parametrize("k", [1, 5])
def test_on_tasting_own_and_strangers_words_are_matched(k: int) -> None:
    pairs = load_benchmark("tasting")
    own, other = (rows_of(pairs, f"{kind}:{k}") for kind in ("profile", "stranger"))
    for mine, theirs in zip(own, other, strict=True):
        words = sum(count_words(part.text) for part in mine.slate.shown)
        assert words == mine.shown.own_words == theirs.shown.own_words > 0
        shown = sum(count_words(part.text) for part in theirs.slate.shown)
        assert shown + theirs.shown.shortfall_words == words
        mine_texts = {post.text for post in mine.question.profile}
        assert not mine_texts & {part.text for part in theirs.slate.shown}


POSTS = st.lists(st.text(alphabet="ab \n", max_size=12), max_size=5)


@given(POSTS, st.integers(0, 12))
def test_words_are_taken_from_the_front_until_there_are_enough(texts: list[str], n: int) -> None:
    posts = [Post(id=str(k), text=text) for k, text in enumerate(texts)]
    taken = take_words(posts, n)
    words = [word for text in texts for word in text.split()]
    assert [word for post in taken for word in post.text.split()] == words[:n]
    for post, whole in zip(taken, posts, strict=False):
        assert whole.text.startswith(post.text)
        assert post is whole or post is taken[-1]
