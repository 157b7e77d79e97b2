from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from palate.records import Judgement, Outcome, Scores, margin_of
from palate.records.verdicts import sign

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
