"""What is shown in scripts without spaces: the post that fits, and as much of a stranger."""

from __future__ import annotations

import re

import pytest

from pairs import pair_of
from palate.benchmarks import Dataset
from palate.contexts import build_context
from palate.evaluation import ContextRow, evaluate, make_rows
from palate.records import Post, PreferencePair
from palate.session import default_session
from palate.words import count_words

ENGLISH = (
    "Which tea suits the evening?",
    ("After work I drink smoky black tea alone, for five minutes brewed.", "A new chain is due.",
     "Late again was the train, with the platform full of people."),
    ("Choir meets on Thursday, and until ten we sing.", "Rye and walnuts are in her bread.",
     "Maps of small islands lie beside the bed, to be read at night."),
    ("Black tea, brewed long.", "Green tea, brewed briefly."),
)  # fmt: skip
CHINESE = (
    "晚上喝什么茶好？",
    ("下班后我只喝烟熏的红茶，泡五分钟才够味。", "自行车该换一条新链条了。",
     "火车又晚点，站台上站满了人，上车等了很久。"),
    ("合唱团星期四聚会，我们唱到十点。", "她的面包里有黑麦和核桃。",
     "床边放着小岛的地图，夜里一张张地看。"),
    ("浓浓的红茶。", "清淡的绿茶。"),
)  # fmt: skip
MIXED = (CHINESE[0], CHINESE[1], ENGLISH[2], CHINESE[3])


def rows_of(spec: str, made: tuple) -> list[ContextRow]:  # type: ignore[type-arg]
    question, own, theirs, (chosen, rejected) = made
    pairs = tuple(
        pair_of(id=user, user_id=user, text=question, chosen=chosen, rejected=rejected,
                profile=tuple(Post(id=f"{user}{k}", text=post) for k, post in enumerate(posts)))
        for user, posts in (("ann", own), ("bob", theirs))
    )  # fmt: skip
    return list(make_rows(Dataset("made", pairs), build_context(spec, default_session()), seed=0))


@pytest.mark.parametrize("made", [ENGLISH, CHINESE, MIXED])
def test_the_post_that_fits_is_shown_in_both_languages(made: tuple) -> None:  # type: ignore[type-arg]
    ann = rows_of("profile:1", made)[0]
    assert [part.text for part in ann.slate.shown] == [made[1][0]]
    assert ann.shown.own_words == count_words(made[1][0])
    assert not ann.shown.search_unmatched


@pytest.mark.parametrize("made", [ENGLISH, CHINESE, MIXED])
@pytest.mark.parametrize("k", [1, 3])
def test_a_stranger_has_as_many_words_or_the_shortfall_is_counted(made: tuple, k: int) -> None:  # type: ignore[type-arg]
    for row in rows_of(f"stranger:{k}", made):
        theirs = sum(count_words(part.text) for part in row.slate.shown)
        assert theirs + row.shown.shortfall_words == row.shown.own_words > 5
    ann = rows_of("stranger:1", made)[0].shown
    assert ann.shortfall_words == 0  # the stranger wrote more than one post's worth


def test_words_bound_letters_too() -> None:
    (part,) = rows_of("profile:3?words=5", CHINESE)[0].slate.shown
    assert part.text == "下班后我只"


def test_examples_are_counted_by_letters() -> None:
    def pair(name: str, text: str, **more: str) -> PreferencePair:
        answers = {"chosen": "红茶。", "rejected": "水。"} | more
        return pair_of(id=name, user_id="ann", text=text, **answers)

    row = pair("now", "晚上呢？", chosen="绿茶。", rejected="牛奶。")
    dataset = Dataset("made", (row,), split="all").with_history([pair("past", "喝什么？")])
    (made,) = make_rows(dataset, build_context("examples:1", default_session()), seed=0)
    (part,) = made.slate.shown
    labels = len(re.sub("[喝什么红茶水]", "", part.text).split())
    assert made.shown.own_words == count_words(part.text)
    assert 3 + 2 + 1 <= made.shown.own_words <= 3 + 2 + 1 + labels


def test_a_post_that_holds_the_beginning_of_a_long_answer_is_dropped() -> None:
    answer = "这一段很长的回答先说茶叶的产地，再说水的温度，最后才说应该泡几分钟，" * 3
    question, own, theirs, _ = CHINESE
    shared = (*theirs[1:], f"转：{answer[:40]}")
    ann = rows_of("stranger:3", (question, own, shared, (answer, "清淡的绿茶。")))[0]
    assert ann.shown.leaks_dropped == 1
    less = (*theirs[1:], f"转：{answer[:25]}")
    ann = rows_of("stranger:3", (question, own, less, (answer, "清淡的绿茶。")))[0]
    assert ann.shown.leaks_dropped == 0


def test_a_search_without_a_word_in_common_is_counted_and_written_only_then() -> None:
    pairs = tuple(
        pair_of(id=user, user_id=user, text=text, chosen="Black.", rejected="Green.",
                profile=(Post(id=f"{user}0", text="rain again"), Post(id=f"{user}1", text="tea")))
        for user, text in (("ann", "Which tea?"), ("bob", "晚上呢？"), ("cat", "The of and?"))
    )  # fmt: skip
    every = evaluate(Dataset("made", pairs), "longest", "profile:1", root=None).summary
    assert every.searches_unmatched == 2
    assert every.model_dump()["searches_unmatched"] == 2
    drawn = evaluate(Dataset("made", pairs), "longest", "stranger:1", root=None).summary
    assert drawn.searches_unmatched == 2
    for of, context in ((pairs[:1], "profile:1"), (pairs, "profile:1?order=recent")):
        summary = evaluate(Dataset("made", of), "longest", context, root=None).summary
        assert summary.searches_unmatched is None
        assert "searches_unmatched" not in summary.model_dump()
