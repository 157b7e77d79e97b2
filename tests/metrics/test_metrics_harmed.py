import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from palate.metrics import Clusters, Estimate, harmed_share
from palate.metrics.clusters import jackknife, ratio
from palate.metrics.harmed import CrossedTable, crossed_moments, drawn_moments, effective_questions

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


CROSSED_ROWS = st.lists(
    st.tuples(
        st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), st.integers(0, 4), st.integers(0, 4)
    ),
    min_size=1,
    max_size=25,
)  # fmt: skip
TIMES = st.lists(st.integers(0, 3), min_size=5, max_size=5)


def by_pairs(
    d: np.ndarray, users: np.ndarray, questions: np.ndarray, copies: np.ndarray
) -> tuple[float, float]:
    """μ and τ² by pairs of rows. Each copy of a user has a mean of its own; pairs of rows of one
    user in two copies, or of one question, are no pairs."""
    units = sorted(set(zip(users.tolist(), copies.tolist(), strict=True)))
    of = {unit: [k for k in range(d.size) if (users[k], copies[k]) == unit] for unit in units}
    of = {u: rows for u, rows in of.items() if len({questions[k] for k in rows}) > 1}
    if not of:
        return np.nan, np.nan
    mu = float(np.mean([d[rows].mean() for rows in of.values()]))
    x = d - mu
    within = [
        np.mean([x[i] * x[j] for i in rows for j in rows if questions[i] != questions[j]])
        for rows in of.values()
    ]
    between, weights = [], []
    for u, ours in of.items():
        for v, theirs in of.items():
            for i in ours:
                for j in theirs:
                    if u[0] != v[0] and questions[i] != questions[j]:
                        between.append(x[i] * x[j])
                        weights.append(1 / len(ours) / len(theirs))
    if not weights:
        return mu, np.nan
    return mu, float(np.mean(within)) - float(np.average(between, weights=weights))


def table_of(
    rows: list[tuple[float, int, int]],
) -> tuple[CrossedTable, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A table, what went in, and where users and questions stand in the table."""
    d = np.array([row[0] for row in rows])
    users, questions = (np.unique([row[k] for row in rows], return_inverse=True)[1] for k in (1, 2))
    places = []
    for codes in (users, questions):
        n = np.bincount(codes)
        places.append(np.argsort(np.lexsort((n, np.bincount(codes, d) / n))))
    return CrossedTable.of(d, users, questions), d, users, questions, *places


@given(CROSSED_ROWS)
def test_moments_are_those_of_all_pairs(rows: list[tuple[float, int, int]]) -> None:
    table, d, users, questions, *_ = table_of(rows)
    measured = crossed_moments(table)[:, 0]
    expected = by_pairs(d, users, questions, np.zeros(d.size, int))
    np.testing.assert_allclose(measured[1], expected[1], rtol=0, atol=1e-12)
    if np.isfinite(expected[1]):
        np.testing.assert_allclose(measured[0], expected[0], rtol=0, atol=1e-12)


@given(CROSSED_ROWS, TIMES, TIMES)
def test_weights_are_rows_repeated_under_the_same_names(rows, user_times, question_times):
    table, d, users, questions, user_place, question_place = table_of(rows)
    a, b = np.array(user_times)[: users.max() + 1], np.array(question_times)[: questions.max() + 1]
    weights = np.empty((a.size, 1)), np.empty((b.size, 1))
    weights[0][user_place, 0], weights[1][question_place, 0] = a, b
    repeated = [
        (k, copy)
        for k in range(d.size)
        for copy in range(a[users[k]])
        for _ in range(b[questions[k]])
    ]
    measured = crossed_moments(table, *weights)[1, 0]
    expected = np.nan
    if repeated:
        at, copies = np.array(repeated).T
        expected = by_pairs(d[at], users[at], questions[at], copies)[1]
    np.testing.assert_allclose(measured, expected, rtol=0, atol=1e-12)


def test_many_columns_at_once_are_each_column_alone() -> None:
    rng = np.random.default_rng(0)
    table = CrossedTable.of(rng.normal(size=80), rng.permutation(80) % 7, rng.permutation(80) % 9)
    a, b = rng.integers(0, 3, (7, 30)) * 1.0, rng.integers(0, 3, (9, 30)) * 1.0
    together = crossed_moments(table, a, b)
    alone = [crossed_moments(table, a[:, [k]], b[:, [k]])[:, 0] for k in range(30)]
    np.testing.assert_allclose(together, np.transpose(alone), rtol=0, atol=1e-12)


def test_effective_number_of_questions() -> None:
    # Ann has one row of each question, Bob three of the first: weights 1.5 and 0.5.
    users, questions = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 0, 0, 0])
    table = CrossedTable.of(np.zeros(5), users, questions)
    assert effective_questions(table) == pytest.approx(4 / (1.5**2 + 0.5**2))


@pytest.mark.parametrize("of_question", [0.0, 0.2, 1.0])
def test_draws_vary_as_the_jackknife_by_user_and_question(of_question: float) -> None:
    rng = np.random.default_rng(1)
    users, questions = np.nonzero(rng.random((40, 30)) < 0.4)
    d = rng.normal(0, 0.2, 40)[users] + rng.normal(0, of_question, 30)[questions]
    d = d + rng.normal(0, 0.7, users.size)
    table = CrossedTable.of(d, users, questions)
    estimate, drawn = np.split(drawn_moments(table, seed=0, draws=3000), [1], axis=1)
    assert estimate.tolist() == crossed_moments(table).tolist()
    weights = 1 / np.bincount(users)[users]
    spread = jackknife(ratio(weights * d, weights), weights, Clusters((users,), questions))
    t = 2.05 / 1.96  # of some 28 degrees of freedom, against a normal
    assert spread.variance is not None
    assert drawn[0].std() == pytest.approx(t * np.sqrt(spread.variance), rel=0.08)
    assert drawn.mean(axis=1) == pytest.approx(estimate[:, 0], abs=0.02)


def test_questions_that_move_all_alike_are_neither_spread_nor_luck() -> None:
    users, questions = np.divmod(np.arange(200), 10)
    own = np.random.default_rng(2).normal(size=20)
    d = own[users] + np.linspace(-3, 3, 10)[questions]
    mean, variance = crossed_moments(CrossedTable.of(d, users, questions))[:, 0]
    assert mean == pytest.approx(own.mean())
    assert variance == pytest.approx(own.var(ddof=1))


def test_draws_that_leave_no_pair_are_left_out() -> None:
    # Three users of two questions each: many draws leave no user with both.
    users, questions = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 2, 2, 0])
    table = CrossedTable.of(np.arange(6.0), users, questions)
    usable = drawn_moments(table, seed=0, draws=200).shape[1] - 1
    assert 20 < usable < 190
    assert drawn_moments(table, seed=0, draws=1).shape[1] == 1
