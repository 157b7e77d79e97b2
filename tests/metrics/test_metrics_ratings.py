import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from palate.metrics import (
    Clusters,
    cross_fitted_predictions,
    error_reduction,
    isotonic_predictions,
    mean_error,
    rank_correlations,
)

ITEMS = st.lists(
    st.tuples(st.integers(-6, 6), st.integers(0, 4), st.sampled_from("abc")),
    min_size=1,
    max_size=40,
)


def tau_b(x: list[float], y: list[float]) -> float:
    """Concordant less discordant pairs over the geometric mean of those untied in either."""
    signs = [
        (np.sign(x[i] - x[j]), np.sign(y[i] - y[j])) for i, j in combinations(range(len(x)), 2)
    ]
    untied = [sum(s[k] != 0 for s in signs) for k in (0, 1)]
    return float(sum(a * b for a, b in signs)) / math.sqrt(untied[0] * untied[1])


def rho(x: list[float], y: list[float]) -> float:
    """Pearson's correlation of mean ranks."""

    def ranks(v: list[float]) -> list[float]:
        return [sum(w < one for w in v) + (v.count(one) + 1) / 2 for one in v]

    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def rising(y: list[float], w: list[float]) -> list[float]:
    """Isotonic regression by its max-min formula."""
    n = len(y)

    def mean(a: int, b: int) -> float:
        return float(np.average(y[a : b + 1], weights=w[a : b + 1]))

    return [max(min(mean(a, b) for b in range(i, n)) for a in range(i + 1)) for i in range(n)]


def test_hand_worked_correlations() -> None:
    # a: one swapped neighbour of four: ρ = 1 - 6·2/(4·15) = 0.8, τ = (5 - 1)/6; b: reversed.
    scores, ratings = [1, 2, 3, 4, 3, 2, 1, 5, 6], [1, 3, 2, 4, 1, 2, 3, 2, 2]
    found = rank_correlations(scores, ratings, list("aaaabbbcc"))
    assert found.spearman.value == pytest.approx((0.8 - 1) / 2)
    assert found.kendall.value == pytest.approx((2 / 3 - 1) / 2)
    assert (found.spearman.n_units, found.left_out) == (2, 1)
    assert found.spearman.low is None, "two users make no interval"


def test_a_user_whose_scores_are_all_equal_counts_as_0() -> None:
    found = rank_correlations([7, 7, 7, 1, 2, 3], [1, 2, 3, 1, 2, 3], list("aaabbb"))
    assert found.spearman.value == found.kendall.value == 0.5
    assert rank_correlations([], [], []).spearman.value is None


@given(ITEMS)
def test_correlations_are_those_of_the_definitions(items: list[tuple[int, int, str]]) -> None:
    scores, ratings, users = (list(column) for column in zip(*items, strict=True))
    rhos, taus = [], []
    for user in sorted(set(users)):
        x = [s for s, u in zip(scores, users, strict=True) if u == user]
        y = [r for r, u in zip(ratings, users, strict=True) if u == user]
        if len(set(y)) >= 3:
            rhos.append(rho(x, y) if len(set(x)) > 1 else 0.0)
            taus.append(tau_b(x, y) if len(set(x)) > 1 else 0.0)
    found = rank_correlations(scores, ratings, users)
    assert found.left_out == len(set(users)) - len(rhos)
    if rhos:
        assert found.spearman.value == pytest.approx(np.mean(rhos))
        assert found.kendall.value == pytest.approx(np.mean(taus))
    else:
        assert found.spearman.value is None


def test_shared_questions_and_nobody_with_three_ratings() -> None:
    rows = Clusters.of(list("aabb"), questions=list("xyxy"))
    found = rank_correlations([1, 2, 3, 4], [0, 1, 1, 0], rows)
    assert (found.spearman.value, found.kendall.n, found.left_out) == (None, 0, 2)


def test_hand_worked_isotonic_predictions() -> None:
    # Scores 1, 2, 2, 5 with 0, 1, ½, ½: level 2 has mean ¾; ¾ (twice), ½ pool to ⅔.
    columns = [1, 2, 2, 5], [0, 1, 0.5, 0.5], [-9, 1, 1.5, 2, 3, 9]
    found = isotonic_predictions(*(np.array(column, dtype=float) for column in columns))
    assert found == pytest.approx([0, 0, 1 / 3, 2 / 3, 2 / 3, 2 / 3])


@given(ITEMS)
def test_isotonic_predictions_are_those_of_the_formula(items: list[tuple[int, int, str]]) -> None:
    scores, ratings = np.array([i[:2] for i in items], dtype=float).T
    levels = np.unique(scores)
    groups = [[r for s, r in zip(scores, ratings, strict=True) if s == one] for one in levels]
    fitted = rising([float(np.mean(g)) for g in groups], [float(len(g)) for g in groups])
    assert isotonic_predictions(scores, ratings, levels) == pytest.approx(fitted)
    between = (levels[:-1] + levels[1:]) / 2
    halves = [(a + b) / 2 for a, b in zip(fitted, fitted[1:], strict=False)]
    assert isotonic_predictions(scores, ratings, between) == pytest.approx(halves)


def test_hand_worked_cross_fit() -> None:
    # Three items, three folds: each is predicted from the two others.
    found = cross_fitted_predictions([1, 2, 3, 5], [0, 0.5, 1, 0.2], list("aaab"), list("xyzx"))
    assert found.scorer[:3].tolist() == [0.5, 0.5, 0.5]
    assert found.user_mean[:3].tolist() == [0.75, 0.5, 0.25]
    assert np.isnan(found.scorer[3]), "a single rating has nothing to be predicted from"
    assert found.global_mean == pytest.approx([0.2, 0.2, 0.2, 0.5])
    assert np.isnan(cross_fitted_predictions([1, 2], [0, 1], "aa", "xy").global_mean).all()


def test_no_rating_is_predicted_from_itself() -> None:
    rng = np.random.default_rng(0)
    scores, ratings = rng.normal(size=30), rng.integers(0, 5, 30) / 4
    users, items = [k % 3 for k in range(30)], list(range(30))
    before = cross_fitted_predictions(scores, ratings, users, items)
    for k in range(30):
        changed = ratings.copy()
        changed[k] = 1 - changed[k] if changed[k] != 0.5 else 1.0
        after = cross_fitted_predictions(scores, changed, users, items)
        assert after.scorer[k] == before.scorer[k]
        assert after.user_mean[k] == before.user_mean[k]
        assert after.global_mean[k] == pytest.approx(before.global_mean[k])


def test_in_sample_noise_is_not_taken_for_skill() -> None:
    # Random scores: fitted in sample they would beat the mean; cross-fitted they cannot.
    rng = np.random.default_rng(1)
    scores, ratings = rng.normal(size=2_000), rng.integers(0, 5, 2_000) / 4
    users = np.arange(2_000) % 100
    found = cross_fitted_predictions(scores, ratings, users, range(2_000))
    saved = error_reduction(found.scorer, found.user_mean, ratings, users)
    assert saved.value is not None
    assert saved.value < 0


@given(ITEMS, st.sampled_from([lambda s: 3 * s - 1, lambda s: s**3, lambda s: 2.0**s]))
def test_a_rising_transform_of_the_scores_changes_nothing(items, transform) -> None:  # type: ignore[no-untyped-def]
    scores, ratings, users = (list(column) for column in zip(*items, strict=True))
    bent = [transform(s) for s in scores]
    numbers = [r / 4 for r in ratings]
    one = cross_fitted_predictions(scores, numbers, users, range(len(items)))
    two = cross_fitted_predictions(bent, numbers, users, range(len(items)))
    np.testing.assert_array_equal(one.scorer, two.scorer)
    assert rank_correlations(scores, ratings, users) == rank_correlations(bent, ratings, users)


@given(ITEMS, st.randoms())
def test_the_order_of_the_rows_changes_no_prediction(items, random) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(items)))
    random.shuffle(order)
    scores, ratings, users = (list(column) for column in zip(*items, strict=True))
    ratings = [r / 4 for r in ratings]
    one = cross_fitted_predictions(scores, ratings, users, range(len(items)))
    turned = [[column[k] for k in order] for column in (scores, ratings, users)]
    two = cross_fitted_predictions(*turned, order)
    np.testing.assert_allclose(one.scorer[order], two.scorer, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one.user_mean[order], two.user_mean, rtol=0, atol=1e-12)


def test_hand_worked_errors() -> None:
    predicted, given_, users = [0.5, 0.5, 1, math.nan], [0, 0.5, 0.5, 1], list("aabb")
    assert mean_error(predicted, given_, users).value == 0.375
    found = mean_error(predicted, given_, users)
    assert (found.n, found.n_units) == (3, 2)
    # Errors ½, 0, ½ against 1, ½, 0 of the baseline: saved ½, ½, -½; by user ½ and -½.
    assert error_reduction(predicted, [1, 1, 0.5, 0], given_, users).value == 0
    perfect = mean_error([1, 0, 1], [1, 0, 1], list("abc"))
    assert perfect.value == 0
    assert perfect.high is not None
    assert perfect.high > 0.5, "three users without an error are no proof"


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        rank_correlations([math.nan], [1], ["a"])
    with pytest.raises(ValueError, match="differ in length"):
        cross_fitted_predictions([1, 2], [1, 2], "aa", "x")


def test_correlations_are_computed_anew_without_each_question() -> None:
    rng = np.random.default_rng(7)
    n, n_users, n_questions = 120, 6, 8
    users, asked = rng.integers(0, n_users, n), rng.integers(0, n_questions, n)
    ratings = rng.integers(1, 6, n).astype(float)
    scores = ratings + rng.normal(0, 2, n)

    def mean_of(there: np.ndarray) -> float:
        each = [
            stats.spearmanr(scores[there & (users == u)], ratings[there & (users == u)]).statistic
            for u in np.unique(users[there])
        ]
        return float(np.mean(each))

    every = np.ones(n, dtype=bool)
    sums = []
    for out in (
        [users == u for u in range(n_users)],
        [asked == q for q in range(n_questions)],
        [
            (users == u) & (asked == q)
            for u, q in set(zip(users.tolist(), asked.tolist(), strict=True))
        ],
    ):
        moved = np.array([mean_of(~rows) for rows in out]) - mean_of(every)
        sums.append((len(out) - 1) / len(out) * float(moved @ moved))
    found = rank_correlations(scores, ratings, Clusters.of(users, questions=asked)).spearman
    assert found.value == pytest.approx(mean_of(every))
    assert found.se == pytest.approx(np.sqrt(max(sums[0], sums[0] + sums[1] - sums[2])))
    assert found.n == found.n_units == n_users


def test_users_with_too_few_ratings_without_a_question_drop_out_of_it() -> None:
    # Without q, user b has two distinct ratings left and no correlation.
    users, asked = list("aaaabbbb"), list("qrstqrst")
    scores, ratings = [1, 2, 3, 4, 4, 1, 2, 3], [1, 2, 4, 3, 9, 1, 2, 2]
    rows = Clusters.of(users, questions=asked)
    found = rank_correlations(scores, ratings, rows)
    assert found.left_out == 0
    assert found.kendall.value is not None
    alone = rank_correlations(scores, ratings, users)
    assert found.kendall.value == pytest.approx(alone.kendall.value)
