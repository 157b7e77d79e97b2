import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from palate.metrics import Estimate, harmed_share

NAN = math.nan
ROWS = st.lists(
    st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), st.integers(0, 8)),
    min_size=1,
    max_size=60,
)


def simulated(
    rng: np.random.Generator, mean: float, spread: float, users: int, rows: int
) -> Estimate:
    """Users whose chance of being right rises by a normal amount; rows are 0 or 1 under both."""
    true = rng.normal(mean, spread, users)
    who = np.repeat(np.arange(users), rows)
    before = rng.random(who.size) < 0.5
    after = rng.random(who.size) < np.clip(0.5 + true, 0, 1)[who]
    return harmed_share(after.astype(float) - before, who, seed=1)


def test_hand_worked() -> None:
    # Means 1, 1/2, -1/2, 1/2: μ = 3/8, variance 1.1875/3. Noise 0, 1/4, 1/4, 1/4: mean 3/16.
    found = harmed_share([1, 1, 0, 1, -1, 0, 0, 1], list("aabbccdd"))
    tau = math.sqrt(1.1875 / 3 - 3 / 16)
    assert found.value == pytest.approx(ndtr(-0.375 / tau))
    assert found.n == 4


def test_users_with_one_row_count_nowhere() -> None:
    found = harmed_share([1, 1, 0, 1, -1, 0, 0, 1, -1, -1], list("aabbccddxy"))
    assert found.value == harmed_share([1, 1, 0, 1, -1, 0, 0, 1], list("aabbccdd")).value
    assert found.n == 4
    alone = harmed_share([1, -1, 0, NAN], list("abcd"))
    assert alone.value is alone.low is alone.high is None
    assert alone.note == "no share: 0 users with two rows, and 3 are needed"


def test_nobody_and_everybody() -> None:
    none = harmed_share([0.0] * 12, list("aabbccddeeff"))
    assert (none.value, none.low, none.high) == (0, 0, 0)
    all_lose = harmed_share([-0.5] * 12, list("aabbccddeeff"))
    assert (all_lose.value, all_lose.low) == (1, 1)
    assert harmed_share([], []) == Estimate()


def test_where_all_gain_alike_those_who_lose_by_chance_are_not_counted() -> None:
    rng = np.random.default_rng(2)
    found = [simulated(rng, 0.1, 0.0, users=200, rows=6) for _ in range(40)]
    assert np.mean([one.value for one in found]) < 0.12
    assert np.median([one.value for one in found]) < 0.03


@pytest.mark.parametrize(("mean", "spread"), [(0.1, 0.15), (0.0, 0.1), (0.05, 0.1), (-0.1, 0.15)])
def test_the_share_of_a_simulation_is_recovered(mean: float, spread: float) -> None:
    rng, truth = np.random.default_rng(3), float(ndtr(-mean / spread))
    found = [simulated(rng, mean, spread, users=200, rows=16) for _ in range(60)]
    shares = np.array([one.value for one in found], dtype=float)
    assert abs(shares.mean() - truth) < 0.04
    covered = np.mean([one.low <= truth <= one.high for one in found])  # type: ignore[operator]
    assert covered >= 0.86


def crossed_rows(
    seed: int, *, users: int = 12, questions: int = 8
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Some of the questions to every user; users, questions and luck move every row."""
    rng = np.random.default_rng(seed)
    u, q = np.nonzero(rng.random((users, questions)) < 0.7)
    d = rng.normal(0.1, 0.3, users)[u] + rng.normal(0, 0.5, questions)[q] + rng.normal(size=u.size)
    return d, u, q


def test_what_questions_do_to_all_users_is_neither_spread_nor_luck() -> None:
    # Three users at 0, 1/4 and -1/2, four questions at ±1 and ±1/2, every sum once, no luck:
    # μ = -1/12, τ² = 7/48 whatever the questions do. By user alone 5/6 is taken off for luck.
    own, moved = np.array([0, 0.25, -0.5]), np.array([1, 0.5, -0.5, -1])
    d = (own[:, None] + moved).ravel()
    users, questions = np.repeat(list("abc"), 4), np.tile(list("wxyz"), 3)
    model = harmed_share(d, users, questions)
    assert model.value == pytest.approx(ndtr(1 / 12 / math.sqrt(7 / 48)))
    assert model.n == 3
    assert harmed_share(d, users).value == 1, "no spread, and a mean below 0"


@given(st.integers(0, 10**6))
def test_names_and_order_of_users_and_questions_do_not_matter(seed: int) -> None:
    d, users, questions = crossed_rows(seed)
    as_given = harmed_share(d, users, questions, draws=30)
    order = np.random.default_rng(seed).permutation(d.size)
    turned = harmed_share(
        [NAN, *d[order]],
        ["new", *(f"u{99 - u}" for u in users[order])],
        ["asked of nobody else", *(f"q{99 - q}" for q in questions[order])],
        draws=30,
    )
    for field in ("value", "low", "high", "n"):
        assert getattr(turned, field) == pytest.approx(getattr(as_given, field), abs=1e-9)
    mirrored = harmed_share(-d, users, questions, draws=30)
    if 0 < as_given.value < 1:  # type: ignore[operator]  # users are not all alike
        assert mirrored.value == pytest.approx(1 - as_given.value, abs=1e-9)  # type: ignore[operator]


@given(ROWS, st.integers(1, 3))
def test_questions_of_one_user_each_change_nothing(rows: list[tuple[float, int]], n: int) -> None:
    d, users = [r[0] for r in rows], [r[1] for r in rows]
    own = [(user, k % n) for k, user in enumerate(users)]
    assert harmed_share(d, users, own, draws=20) == harmed_share(d, users, draws=20)


def test_few_shared_questions_and_users_of_one_question_have_no_share() -> None:
    # Two questions; then three of which one holds most rows; then users of one question each.
    d = np.random.default_rng(5).normal(size=24)
    users = np.repeat(np.arange(6), 4)
    heavy = np.tile(["x", "x", "x", "y"], 6).astype(object)
    heavy[-1] = "z"
    cases = (
        (np.tile([0, 1], 12), 6, "no share: 2.0 effective questions, and more than 2 are needed"),
        (heavy, 6, "no share: 1.6 effective questions, and more than 2 are needed"),
        (users // 2, 0, "no share: 0 users with rows on two questions, and 3 are needed"),
    )
    for questions, modelled, note in cases:
        model = harmed_share(d, users, questions)
        assert model.value is model.low is model.high is None
        assert model.n == modelled
        assert model.note == note


def test_where_nobody_or_everybody_is_harmed_by_every_shared_question() -> None:
    users, questions = np.divmod(np.arange(24), 4)
    none = harmed_share(np.zeros(24), users, questions)
    assert (none.value, none.low, none.high) == (0, 0, 0)
    everybody = harmed_share(np.full(24, -0.5), users, questions)
    assert (everybody.value, everybody.low) == (1, 1)


def test_one_draw_tells_no_interval_of_shared_questions() -> None:
    model = harmed_share(*crossed_rows(0), draws=1)
    assert model.value is not None
    assert model.low is model.high is None
    assert model.note == "no interval: under two draws leave users on two questions"


@given(ROWS)
def test_laws(rows: list[tuple[float, int]]) -> None:
    d, users = [r[0] for r in rows], [r[1] for r in rows]
    one = harmed_share(d, users, draws=20)
    turned = harmed_share([NAN, *d[::-1]], ["new", *(f"u{u}" for u in users[::-1])], draws=20)
    assert turned.value == pytest.approx(one.value, abs=1e-9)
    assert turned.low == pytest.approx(one.low, abs=1e-9)
    if one.value is not None:
        assert one.low <= one.value <= one.high  # type: ignore[operator]
        mirrored = harmed_share([-x for x in d], users, draws=20)
        if 0 < one.value < 1:  # users are not all alike
            assert mirrored.value == pytest.approx(1 - one.value)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        harmed_share([math.inf], ["a"])
    with pytest.raises(ValueError, match="draws"):
        harmed_share([1], ["a"], draws=0)
    with pytest.raises(ValueError, match="differ in length"):
        harmed_share([1, 0], ["a", "b"], ["x"])
    with pytest.raises(ValueError, match="NaN"):
        harmed_share([1, 0], ["a", "b"], ["x", NAN])
