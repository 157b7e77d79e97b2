from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from palate.benchmarks import load_benchmark
from palate.records import (
    Judgement,
    Message,
    Outcome,
    Part,
    Scores,
    Slate,
    candidate_order,
    margin_of,
    sign,
)

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


# verdicts


SINGLE = st.floats(-1e6, 1e6, width=32)
DOUBLE = st.floats(-1e6, 1e6)
OPPOSITE = {
    Outcome.CHOSEN: Outcome.REJECTED,
    Outcome.REJECTED: Outcome.CHOSEN,
    Outcome.TIE: Outcome.TIE,
    Outcome.UNSCORED: Outcome.UNSCORED,
}


@given(DOUBLE, st.lists(st.none() | DOUBLE, max_size=2).map(tuple))
def test_the_other_position_gives_the_opposite(
    margin: float, orders: tuple[float | None, ...]
) -> None:
    judgement = Judgement(margin=margin, orders=orders)
    first, second = judgement.verdict(0), judgement.verdict(1)
    assert second.outcome is OPPOSITE[first.outcome]
    if first.margin is not None and second.margin is not None:
        assert second.margin == -first.margin


@given(SINGLE, SINGLE)
def test_swapping_the_scores_swaps_the_verdict(first: float, second: float) -> None:
    one = Judgement(margin=margin_of(first, second))
    other = Judgement(margin=margin_of(second, first))
    assert one.verdict(0).outcome is other.verdict(1).outcome
    expected = (first > second) - (first < second)
    outcome = {1: Outcome.CHOSEN, 0: Outcome.TIE, -1: Outcome.REJECTED}[expected]
    assert one.verdict(0).outcome is outcome


@given(DOUBLE, DOUBLE)
def test_a_tie_is_equality_as_float32(first: float, second: float) -> None:
    assume(min(abs(first), abs(second)) > 1e-30)
    tied = np.float32(first) == np.float32(second)
    assert (Judgement(margin=margin_of(first, second)).verdict(0).outcome is Outcome.TIE) == tied
    assert margin_of(first, second) == (0.0 if tied else first - second)


@pytest.mark.parametrize(
    ("first", "second", "margin"),
    [(1.0, 1.0 + 1e-9, 0.0), (1.0, 1.0 + 2**-23, -(2**-23)), (2.5, -1.0, 3.5), (0.0, -0.0, 0.0),
     (math.inf, math.inf, 0.0), (-math.inf, -math.inf, 0.0), (0.0, -math.inf, math.inf)],
)  # fmt: skip
def test_margins_by_hand(first: float, second: float, margin: float) -> None:
    assert margin_of(first, second) == margin


@given(st.floats() | st.floats(-(2.0**-148), 2.0**-148))
def test_a_sign_is_that_of_the_float32(margin: float) -> None:
    with np.errstate(over="ignore"):
        assert sign(margin) == (0 if math.isnan(margin) else np.sign(np.float32(margin)))


@pytest.mark.parametrize("margin", [2.0**-150, np.nextafter(2.0**-150, 1)])
def test_half_of_the_smallest_float32_is_a_tie(margin: float) -> None:
    assert sign(margin) == -sign(-margin) == (np.float32(margin) > 0)


def test_a_margin_beyond_float32_is_a_preference_without_a_warning() -> None:
    assert sign(1e300) == 1
    assert Judgement(margin=margin_of(-1e300, 1.0)).verdict(0).outcome is Outcome.REJECTED


@pytest.mark.parametrize(
    ("orders", "outcome"),
    [
        ((1.0, 1.0), Outcome.CHOSEN),
        ((-1.0, -2.0), Outcome.REJECTED),
        ((3.0, -1.0), Outcome.TIE),  # the mean is +1: votes that disagree are a tie all the same
        ((1.0, 0.0), Outcome.TIE),
        ((0.0, 0.0), Outcome.TIE),
        ((1.0, None), Outcome.UNSCORED),
        ((None, None), Outcome.UNSCORED),
        ((2.0,), Outcome.CHOSEN),
    ],
)
def test_orders_by_hand(orders: tuple[float | None, ...], outcome: Outcome) -> None:
    margin = sum(order or 0.0 for order in orders) / len(orders)
    verdict = Judgement(margin=margin, orders=orders).verdict(0)
    assert verdict.outcome is outcome
    if outcome is not Outcome.UNSCORED:
        assert (verdict.margin, verdict.orders) == (margin, orders)
        flipped = Judgement(margin=margin, orders=orders).verdict(1)
        assert (flipped.margin, flipped.orders) == (
            -margin,
            tuple(-o for o in orders if o is not None),
        )


def test_no_margin_keeps_its_reason() -> None:
    verdict = Judgement(margin=None, reason="too long").verdict(0)
    assert (verdict.outcome, verdict.margin, verdict.reason) == (
        Outcome.UNSCORED, None, "too long",
    )  # fmt: skip
    assert Judgement(margin=None).verdict(1).reason == "no margin"


def test_a_margin_that_is_no_number_is_unscored() -> None:
    verdict = Judgement(margin=margin_of(math.nan, 1.0)).verdict(0)
    assert (verdict.outcome, verdict.margin, verdict.reason) == (
        Outcome.UNSCORED, None, "not a number",
    )  # fmt: skip


def test_no_margin_is_minus_zero() -> None:
    assert math.copysign(1, Judgement(margin=0.0).verdict(1).margin or 0.0) == 1


def test_credits() -> None:
    assert [Outcome(name).credit for name in ("chosen", "tie", "rejected")] == [1.0, 0.5, 0.0]
    assert math.isnan(Outcome.UNSCORED.credit)


def test_unscored_scores_carry_one_reason_each() -> None:
    scores = Scores.unscored(3, "refused", outage=True)
    assert (scores.values, scores.reason(2), scores.outage) == ((None,) * 3, "refused", True)
    assert Scores(values=(1.0, 2.0)).reason(1) is None
