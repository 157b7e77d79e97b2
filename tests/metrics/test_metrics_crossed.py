import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.metrics import Clusters
from palate.metrics.crossed import (
    CrossedTable,
    crossed_moments,
    drawn_moments,
    effective_questions,
)
from palate.metrics.jackknife import jackknife, ratio

ROWS = st.lists(
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


@given(ROWS)
def test_moments_are_those_of_all_pairs(rows: list[tuple[float, int, int]]) -> None:
    table, d, users, questions, *_ = table_of(rows)
    measured = crossed_moments(table)[:, 0]
    expected = by_pairs(d, users, questions, np.zeros(d.size, int))
    np.testing.assert_allclose(measured[1], expected[1], rtol=0, atol=1e-12)
    if np.isfinite(expected[1]):
        np.testing.assert_allclose(measured[0], expected[0], rtol=0, atol=1e-12)


@given(ROWS, TIMES, TIMES)
def test_weights_are_rows_repeated_under_the_same_names(
    rows: list[tuple[float, int, int]], user_times: list[int], question_times: list[int]
) -> None:
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
