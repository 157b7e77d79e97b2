from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from palate.benchmarks import load_benchmark
from palate.records import Message, Part, Slate, candidate_order

TEXT = st.text(max_size=12)
PARTS = st.lists(
    st.builds(Part, kind=st.sampled_from(["post", "plan"]), text=TEXT, category=TEXT), max_size=3
)
SLATES = st.builds(
    Slate,
    question=TEXT.map(lambda text: (Message(role="user", content=text),)),
    shown=PARTS.map(tuple),
    candidates=st.lists(TEXT, min_size=2, max_size=3).map(tuple),
    user=st.none() | TEXT,
)
PART = Part(kind="post", text="I cook on an open fire.", category="food")


def slate(**changes: object) -> Slate:
    made = Slate(
        question=(Message(role="user", content="Dinner?"),),
        shown=(PART,),
        candidates=("Stew.", "Sushi."),
        user="k",
    )
    return made.replace(**changes)


@given(SLATES)
def test_without_context_only_the_parts_are_gone(made: Slate) -> None:
    _ = made.id, made.prompt_key  # cached now; a copy must not inherit them
    bare = made.without_context()
    fresh = Slate(question=made.question, candidates=made.candidates, user=made.user)
    assert bare == fresh
    assert (bare.id, bare.prompt_key) == (fresh.id, fresh.prompt_key)
    assert (bare.id == made.id) == (not made.shown)
    assert bare.without_context() is bare


@given(SLATES)
def test_equal_slates_have_equal_ids(made: Slate) -> None:
    again = Slate.model_validate_json(made.model_dump_json())
    assert (again.id, again.prompt_key) == (made.id, made.prompt_key)


@pytest.mark.parametrize(
    "change",
    [
        {"question": (Message(role="user", content="Lunch?"),)},
        {"question": (Message(role="system", content="Dinner?"),)},
        {"shown": ()},
        {"shown": (PART, PART)},
        {"shown": (PART.model_copy(update={"kind": "plan"}),)},
        {"shown": (PART.model_copy(update={"text": "I fast."}),)},
        {"shown": (PART.model_copy(update={"category": "fire"}),)},
        {"shown": (PART.model_copy(update={"rank": 1}),)},
        {"candidates": ("Sushi.", "Stew.")},
        {"candidates": ("Stew.", "Sushi.", "Soup.")},
        {"user": None},
        {"user": "l"},
    ],
)
def test_every_field_moves_the_id(change: dict[str, object]) -> None:
    made = slate()
    before = made.id
    changed = made.replace(**change)
    assert changed.id != before
    assert (changed.prompt_key == made.prompt_key) == ("candidates" in change)
    assert made.id == before


def test_the_order_in_which_parts_are_read_moves_the_key() -> None:
    one, two = Part(kind="post", text="one"), Part(kind="post", text="two")
    up = slate(shown=(one, two.model_copy(update={"rank": 1})))
    down = slate(shown=(one.model_copy(update={"rank": 1}), two))
    assert up.prompt_key != down.prompt_key


def test_a_copy_is_validated() -> None:
    with pytest.raises(ValidationError):
        slate(candidates=3)
    with pytest.raises(ValidationError):
        slate(narrative="gold")
    with pytest.raises(ValidationError):
        slate().user = "other"  # type: ignore[misc]


def test_who_is_excluded_is_part_of_what_is_read() -> None:
    keys = {slate().prompt_key, slate(excluded=("a",)).prompt_key, slate(user="a").prompt_key,
            slate(excluded=("a", "b")).prompt_key}  # fmt: skip
    assert len(keys) == 4


def test_a_slate_has_room_for_nothing_else() -> None:
    assert set(Slate.model_fields) == {"question", "shown", "candidates", "user", "excluded"}


@given(TEXT, TEXT, TEXT, st.integers())
def test_the_order_never_depends_on_which_was_chosen(
    question: str, one: str, two: str, seed: int
) -> None:
    order = candidate_order(question, (one, two), seed)
    assert order == candidate_order(question, (two, one), seed)
    assert sorted(order) == sorted((one, two))


@pytest.mark.parametrize("seed", range(2))
def test_the_order_is_balanced_over_questions(seed: int) -> None:
    n = 4000
    first = sum(candidate_order(f"q{k}", "ab", seed)[0] == "a" for k in range(n))
    assert abs(first - n / 2) < 5 * (n / 4) ** 0.5


def test_the_seed_and_the_question_move_the_order() -> None:
    assert len({candidate_order("q", "ab", seed) for seed in range(20)}) == 2
    assert len({candidate_order(f"q{k}", "ab", 0) for k in range(20)}) == 2


def reads_the_id(made: Slate) -> int:
    return int(made.id, 16) % 2


def takes_the_first(made: Slate) -> int:
    del made
    return 0


def ordered(question: str, chosen: str, rejected: str, seed: int) -> tuple[Slate, int]:
    candidates = candidate_order(question, (chosen, rejected), seed)
    made = Slate(question=(Message(role="user", content=question),), candidates=candidates)
    return made, candidates.index(chosen)


@pytest.mark.parametrize("pick", [takes_the_first, reads_the_id])
def test_blind_tricks_are_at_chance_on_random_pairs(pick: Callable[[Slate], int]) -> None:
    n = 3000
    made = [ordered(f"q{k % 100}", f"good {k}", f"poor {k}", 0) for k in range(n)]
    right = sum(pick(one) == position for one, position in made)
    assert abs(right - n / 2) < 4 * (n / 4) ** 0.5


@pytest.mark.parametrize("pick", [takes_the_first, reads_the_id])
@pytest.mark.parametrize("seed", range(3))
def test_blind_tricks_are_right_on_half_of_every_couple(
    pick: Callable[[Slate], int], seed: int
) -> None:
    pairs = load_benchmark("tasting")
    right = []
    for pair in pairs.pairs:
        made, position = ordered(pair.text, pair.chosen, pair.rejected, seed)
        right.append(pick(made) == position)
    assert [right[i] + right[j] for i, j in pairs.couples] == [1] * 48
