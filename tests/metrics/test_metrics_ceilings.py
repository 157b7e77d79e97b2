"""Ceilings: moments by all subsets of votes, bounds by all laws of three values, planted votes."""

from __future__ import annotations

import sys
from itertools import combinations
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.metrics import Clusters, ceilings

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import cover_of_ceilings as planted

exact: Any = sys.modules["palate.metrics.ceilings"]
Array = np.ndarray[Any, Any]


def votes_of(users: Any, pairs: Any, first: Any) -> Clusters:
    """Votes for the first response of each pair, or the second."""
    pairs, first = np.asarray(pairs), np.asarray(first, bool)
    return Clusters.of(users, questions=pairs, texts=(2 * pairs + ~first, 2 * pairs + first))


def moment(group: int, power: int, mean: float, mass: float = 1.0) -> Any:
    """A moment of two cells, whose mean is known exactly."""
    both = np.array([0.5, 0.5])
    return exact._Moment(group, power, 1, 2, mass, 1.0, np.array([mean, mean]), both)


def bounds(*moments: Any) -> Any:
    """The programme where moments are known without error."""
    return exact._Laws(moments, np.zeros((len(moments), len(moments))))


def three_points(values: Array, first: float, second: float) -> tuple[float, float]:
    """Least and largest mean of t over all laws of three of the values with both moments."""
    means = []
    for some in combinations(values, 3):
        t = np.array(some)
        weights = np.linalg.solve(np.stack([t**0, t**2, t**4]), [1.0, first, second])
        if (weights > -1e-12).all():
            means.append(float(weights @ t))
    return min(means), max(means)


@pytest.mark.parametrize("law", [(0.1, 0.5, 0.9), (0.0, 0.3, 0.4), (0.2, 0.2, 1.0), (0.6, 0.8, 1)])
def test_bounds_are_those_of_all_laws_of_three_values(
    law: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.linspace(0, 1, 31)
    monkeypatch.setattr(exact, "GRID", values)
    t = values[np.round(np.array(law) * 30).astype(int)]
    first, second = float((t**2).mean()), float((t**4).mean())
    low, high = bounds(moment(0, 1, first), moment(0, 2, second)).ends("blind")
    searched = three_points(values, first, second)
    assert (low, high) == pytest.approx([0.5 + end / 2 for end in searched], abs=1e-7)
    assert low - 1e-9 <= 0.5 + t.mean() / 2 <= high + 1e-9


@pytest.mark.parametrize("alike", [0.5, 0.58, 0.82, 1.0])
def test_one_repeat_has_the_bounds_of_a_study(alike: float) -> None:
    low, high = bounds(moment(exact.PERSONAL, 1, 2 * alike - 1)).ends("personal")
    assert low == pytest.approx(alike, abs=1e-7)
    assert high == pytest.approx((1 + sqrt(2 * alike - 1)) / 2, abs=1e-4)  # the grid has 101 values


def test_taste_is_bounded_by_what_both_laws_allow_together() -> None:
    # Users are sure (a = 1), and p is ½ or 1: taste is worth ½ in half of the pairs.
    told = bounds(moment(0, 1, 0.5), moment(0, 2, 0.5), moment(exact.PERSONAL, 1, 1.0))
    assert told.ends("taste") == pytest.approx((0.25, 0.25), abs=1e-6)
    # Nobody is surer of a pair than all are together: P = B, whatever both are.
    told = bounds(moment(0, 1, 0.3), moment(exact.PERSONAL, 1, 0.3))
    low, high = told.ends("taste")
    assert low == pytest.approx(0, abs=1e-7)
    # P alone may be as high as (1 + √0.3)/2 and B as low as 0.65, but hardly both.
    apart = (1 + sqrt(0.3)) / 2 - 0.65
    assert 0 <= high < apart - 0.05
    # Repeats that agree less than users do: no law has that.
    assert bounds(moment(0, 1, 0.9), moment(exact.PERSONAL, 1, 0.1)).ends("taste") == (None, None)


def test_classes_weigh_their_rows() -> None:
    told = bounds(moment(0, 1, 0.0, 0.25), moment(1, 1, 1.0, 0.75))
    assert told.ends("blind") == pytest.approx((0.875, 0.875), abs=1e-7)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=7), min_size=1, max_size=5))
def test_moments_are_means_over_all_sets_of_users(counts: list[list[bool]]) -> None:
    users = np.concatenate([np.arange(len(of)) for of in counts])
    pairs = np.repeat(np.arange(len(counts)), [len(of) for of in counts])
    cells, _ = exact._moments(votes_of(users, pairs, np.concatenate(counts)), None, users.size)
    values = exact._agreements(cells)
    for pair, of in enumerate(counts):
        signs = [1 if vote else -1 for vote in of]
        for k in range(1, min(3, len(of) // 2) + 1):
            by_hand = np.mean([prod(some) for some in combinations(signs, 2 * k)])
            assert values[k - 1][cells.pairs == pair].mean() == pytest.approx(by_hand, abs=1e-9)


def drawn(seed: int = 0, users: int = 60, pairs: int = 150, again: int = 60) -> tuple[Array, ...]:
    """Votes of five users a pair, some of them cast again."""
    stream = np.random.default_rng(seed)
    of_pairs = np.repeat(np.arange(pairs), 5)
    of_users = np.concatenate([stream.permutation(users)[:5] for _ in range(pairs)])
    chance = stream.choice([0.1, 0.5, 0.8], pairs)[of_pairs]
    first = stream.random(of_users.size) < chance
    repeated = stream.permutation(of_users.size)[:again]
    second = stream.random(again) < chance[repeated]
    columns = (of_users, of_pairs, first), (of_users[repeated], of_pairs[repeated], second)
    return tuple(np.concatenate(both) for both in zip(*columns, strict=True))


def test_neither_the_order_of_rows_nor_of_responses_matters() -> None:
    users, pairs, first = drawn()
    told = ceilings(votes_of(users, pairs, first))
    order, turned = np.random.default_rng(1).permutation(users.size), pairs % 3 == 0
    other = ceilings(votes_of(users[order], pairs[order], (first ^ turned)[order]))
    assert (told.n_pairs, told.n_votes, told.n_repeats) == (150, 810, 60)
    for name in ("blind", "personal", "taste"):
        assert getattr(told, name) == pytest.approx(getattr(other, name), abs=1e-6)
    assert told.blind and told.personal and told.taste
    assert told.blind[0] < told.blind[1] <= told.personal[1]
    assert told.taste[0] == pytest.approx(0, abs=1e-9)


def test_a_scorer_is_measured_on_rows_of_shared_pairs_alone() -> None:
    users, pairs, first = drawn()
    alone = np.arange(30)
    users, pairs = np.append(users, alone), np.append(pairs, 1000 + alone)
    first = np.append(first, alone > 0)
    right = np.where(pairs < 1000, 0.75, 0.0)
    right[:10] = np.nan
    told, bare = (ceilings(votes_of(users, pairs, first), each) for each in (right, None))
    assert told.accuracy == pytest.approx(0.75) and told.captured is not None
    # A scorer leaves the ceilings alone.
    assert (told.blind, told.taste, told.n_votes) == (bare.blind, bare.taste, 810)


def test_a_later_choice_on_the_row_is_a_second_vote_and_no_row_of_accuracy() -> None:
    users, pairs, first = drawn()
    rows = users.size - 60
    places = {both: k for k, both in enumerate(zip(users[:rows], pairs[:rows], strict=True))}
    alike = np.full(rows, -1)
    for user, pair, later in zip(users[rows:], pairs[rows:], first[rows:], strict=True):
        k = places[user, pair]
        alike[k] = first[k] == later
    right = np.arange(rows) % 4 / 3.0
    votes = votes_of(users[:rows], pairs[:rows], first[:rows])
    told = ceilings(votes, right, alike)
    of_rows = ceilings(votes_of(users, pairs, first), np.append(right, np.full(60, np.nan)))
    counted = [(it.n_pairs, it.n_votes, it.n_repeats, it.accuracy) for it in (told, of_rows)]
    assert counted[0] == counted[1] and told.n_repeats == 60
    assert told.accuracy == pytest.approx(right.mean())
    # By hand: E a² is the mean of x x', which is 1 where both are alike and else -1.
    moment = next(
        m for m in exact._moments(votes_of(users, pairs, first), None, rows)[1] if m.group < 0
    )
    assert moment.weights @ moment.values == pytest.approx(2 * alike[alike >= 0].mean() - 1)
    assert ceilings(votes, right, np.full(rows, -1)) == ceilings(votes, right)


def test_what_votes_do_not_tell_is_none_with_its_reason() -> None:
    one_each = ceilings(votes_of(np.arange(50), np.arange(50), np.arange(50) % 2))
    assert (one_each.n_pairs, one_each.blind, one_each.personal) == (0, None, None)
    users, pairs, first = drawn(users=12)
    few = ceilings(votes_of(users, pairs, first))
    assert few.blind is None and "effective users, and 20 or more are needed" in str(few.note)
    users, pairs, first = drawn(again=0)
    told = ceilings(votes_of(users, pairs, first), np.ones(users.size))
    assert told.blind and told.personal is None and told.taste is None and told.captured is None
    # Repeats of one user alone tell nothing of others'.
    again = np.arange(users.size)[users == users[0]]
    rows = np.append(np.arange(users.size), again)
    assert ceilings(votes_of(users[rows], pairs[rows], first[rows])).personal is None
    with pytest.raises(ValueError, match="with questions and texts"):
        ceilings(Clusters.of(["ann", "bob"]))


def test_a_region_that_no_law_fits_is_widened_aloud() -> None:
    # In every pair exactly two of four chose the first: less often than chance would have it.
    users = np.concatenate([np.random.default_rng(k).permutation(60)[:4] for k in range(300)])
    told = ceilings(votes_of(users, np.repeat(np.arange(300), 4), np.tile([1, 1, 0, 0], 300)))
    assert told.blind and told.blind[0] == pytest.approx(0.5, abs=1e-6)
    assert "times as wide" in str(told.note)


def covers(worlds: int, names: tuple[str, ...]) -> list[float]:
    return [planted.line(one, worlds)[1] for one in planted.SETTINGS if one.name in names]


def test_planted_votes_are_covered() -> None:
    names = "beta(1, 1), torn", "no taste, all alike, p 0.8"
    assert min(covers(5, names)) >= 4 / 5


@pytest.mark.full
def test_planted_votes_of_every_setting_are_covered() -> None:
    assert len(planted.SETTINGS) >= 10
    every = [planted.line(setting, 24)[1] for setting in planted.SETTINGS]
    # 24 worlds of a cover of 0.95 have fewer than 20 within in 2 of 1,000 settings.
    assert min(every) >= 20 / 24


def test_the_tool_fails_where_intervals_are_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    region = exact._region
    monkeypatch.setattr(exact, "_region", lambda *args: region(*args) / 50)
    monkeypatch.setattr(sys, "argv", ["cover", "4", "--only", "all alike, p 0.8, firm"])
    assert planted.main() == 1


@pytest.mark.parametrize("again", ["as before", "by lot"])
def test_asking_again_about_pairs_that_divide_people_moves_no_weight_to_them(again: str) -> None:
    # Half of the pairs are agreed on and half are tossed for: the true B is 0.75.
    stream = np.random.default_rng(3)
    pairs, users = np.repeat(np.arange(1000), 8), np.tile(np.arange(80), 100)
    torn = pairs % 2 == 1
    first = np.where(torn, stream.random(8000) < 0.5, stream.random(1000)[pairs] < 0.5)
    later = np.ones(8000) if again == "as before" else stream.random(8000) < 0.5
    votes = votes_of(users, pairs, first)
    asked, plain = ceilings(votes, alike=np.where(torn, later, -1).astype(int)), ceilings(votes)
    assert plain.blind[0] < 0.75 < plain.blind[1]
    assert asked.blind[0] < 0.75 < asked.blind[1]
    if again == "as before":
        assert asked.blind == pytest.approx(plain.blind, abs=0.03)


def test_votes_that_fit_no_chances_have_no_interval() -> None:
    # One for each side of each pair, always.
    users, pairs = np.arange(60_000) % 400, np.repeat(np.arange(30_000), 2)
    told = ceilings(votes_of(users, pairs, np.arange(60_000) % 2 == 0))
    assert (told.n_pairs, told.blind) == (30_000, None)
    assert told.note == "no interval: the counts fit no chances"
