import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.metrics.agreement import AnnotationTask
from nltk.metrics.distance import binary_distance, interval_distance
from scipy import stats

from by_hand import variance_by_hand
from palate.metrics import (
    Clusters,
    cross_fitted_predictions,
    error_reduction,
    isotonic_predictions,
    mean_error,
    rank_correlations,
    rater_agreement,
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

    def mean_correlation(at: list[int]) -> float:
        by_user = [[k for k in at if users[k] == u] for u in np.unique(users[at])]
        return float(np.mean([stats.spearmanr(scores[k], ratings[k]).statistic for k in by_user]))

    found = rank_correlations(scores, ratings, Clusters.of(users, questions=asked)).spearman
    assert found.value == pytest.approx(mean_correlation([*range(n)]))
    expected = variance_by_hand(mean_correlation, users, asked)
    assert found.se == pytest.approx(np.sqrt(expected))
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


NAN = float("nan")
KRIPPENDORFF = np.array([
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
    [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
])  # fmt: skip
"""Observers × units, with gaps."""
TABLES = st.integers(2, 5).flatmap(
    lambda raters: st.lists(
        st.lists(st.sampled_from([NAN, 1.0, 2.0, 3.0, 5.0]), min_size=raters, max_size=raters),
        min_size=2,
        max_size=8,
    )
)
"""Units × raters."""


def figure(table: np.ndarray, measure: str, **options: bool) -> float | None:
    """Of a table of raters × units."""
    raters, units = (codes.ravel() for codes in np.indices(table.shape))
    rows = Clusters.of(raters, questions=units)
    return rater_agreement(table.ravel(), units, rows, measure=measure, **options).value


def pairs_of_units(table: np.ndarray) -> list[list[tuple[float, float]]]:
    """The ordered pairs of values of each unit that has two."""
    units = [column[~np.isnan(column)].tolist() for column in table.T]
    return [
        [(a, b) for k, a in enumerate(unit) for m, b in enumerate(unit) if k != m]
        for unit in units
        if len(unit) > 1
    ]


def alpha_by_pairs(table: np.ndarray, measure: str) -> float | None:
    """Sum over pairs of values, without any counts."""
    units = [column[~np.isnan(column)] for column in table.T]
    values = [unit.tolist() for unit in units if unit.size > 1]
    every = [value for unit in values for value in unit]

    def apart(a: float, b: float) -> float:
        if measure == "nominal":
            return float(a != b)
        if measure == "interval":
            return (a - b) ** 2
        low, high = min(a, b), max(a, b)
        between = sum(low <= value <= high for value in every)
        ends = sum(value in {low, high} for value in every) / (1 if low == high else 2)
        return 0.0 if a == b else float(between - ends) ** 2

    seen = sum(
        apart(a, b) / (len(unit) - 1)
        for unit in values
        for k, a in enumerate(unit)
        for m, b in enumerate(unit)
        if k != m
    )
    chance = sum(apart(a, b) for a in every for b in every) / max(len(every) - 1, 1)
    return None if chance == 0 else 1 - seen / chance


@pytest.mark.parametrize(
    ("measure", "value"),
    [("nominal", 0.7434), ("ordinal", 0.8154), ("interval", 0.8491), ("percent", 0.81818)],
)
def test_krippendorffs_table(measure: str, value: float) -> None:
    assert figure(KRIPPENDORFF, measure) == pytest.approx(value, abs=0.00005)


def test_gwets_table() -> None:
    cells = [(0, 0, 13), (1, 1, 20), (1, 2, 7), (2, 1, 4), (2, 2, 56)]
    table = np.array([pair for a, b, n in cells for pair in [(a, b)] * n], dtype=float).T
    assert figure(table, "nominal") == pytest.approx(0.79726, abs=0.000005)


@settings(deadline=None)
@given(TABLES, st.sampled_from(["nominal", "interval"]))
def test_alpha_is_nltks_with_gaps(units: list[list[float]], measure: str) -> None:
    table = np.array(units).T
    known = [
        (f"r{r}", f"u{u}", float(table[r, u]))
        for u in range(table.shape[1])
        if (~np.isnan(table[:, u])).sum() > 1
        for r in np.flatnonzero(~np.isnan(table[:, u]))
    ]
    value = figure(table, measure)
    if len({label for *_, label in known}) < 2:
        assert value is None
        return
    distance = binary_distance if measure == "nominal" else interval_distance
    assert value == pytest.approx(AnnotationTask(known, distance=distance).alpha(), abs=1e-12)


@settings(deadline=None)
@given(TABLES, st.sampled_from(["nominal", "ordinal", "interval"]))
def test_alpha_is_that_of_all_pairs(units: list[list[float]], measure: str) -> None:
    table = np.array(units).T
    assert figure(table, measure) == pytest.approx(alpha_by_pairs(table, measure), abs=1e-12)


@given(TABLES)
def test_percent_is_the_mean_of_units(units: list[list[float]]) -> None:
    shares = [np.mean([a == b for a, b in pairs]) for pairs in pairs_of_units(np.array(units).T)]
    expected = pytest.approx(np.mean(shares)) if shares else None
    assert figure(np.array(units).T, "percent") == expected


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=3, max_size=3), min_size=2))
def test_both_orders_are_every_unit_twice_and_blind_to_sides(choices: list[list[float]]) -> None:
    table = np.array(choices).T
    value = figure(table, "nominal", both_orders=True)
    twice = figure(np.hstack([table, -table]), "nominal")
    assert value == pytest.approx(twice, abs=1e-12)
    turned = table * np.where(np.arange(table.shape[1]) % 2, -1, 1)
    assert value == pytest.approx(figure(turned, "nominal", both_orders=True), abs=1e-12)


def test_in_both_orders_alpha_without_ties_is_twice_the_agreement_less_one() -> None:
    # And not so where the chance knows which side is gold: raters who agree on nothing but that.
    stream = np.random.default_rng(1)
    table = np.where(stream.random((3, 4_000)) < 0.9, 1.0, -1.0)
    agreed = figure(table, "percent")
    value = figure(table, "nominal", both_orders=True)
    assert value == pytest.approx(2 * agreed - 1, abs=0.001)
    assert figure(table, "nominal") == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize("measure", ["percent", "nominal", "ordinal", "interval"])
def test_the_interval_leaves_out_raters_units_and_cells(measure: str) -> None:
    table = np.random.default_rng(4).integers(1, 4, (5, 12)).astype(float)
    table[:3] = table[0]
    table[1, :4] += 1
    raters, units = (codes.ravel() for codes in np.indices(table.shape))
    values = table.ravel()

    def figure_of(rows: list[int]) -> float:
        return rater_agreement(values[rows], units[rows], raters[rows], measure=measure).value

    e = rater_agreement(values, units, Clusters.of(raters, questions=units), measure=measure)
    assert e.se == pytest.approx(np.sqrt(variance_by_hand(figure_of, raters, units)))
    assert e.df == 4
    assert (e.n, e.n_units) == (12, 5)


def test_where_there_is_no_figure_a_note_says_why() -> None:
    rows = Clusters.of(list("aabb"), questions=list("xyxz"))
    alone = rater_agreement([1, 2, NAN, 2], list("xyxz"), rows)
    assert (alone.value, alone.n, alone.note) == (None, 0, "no item has values of two raters")
    alike = rater_agreement([1, 1, 1, 1], list("xyxy"), list("aabb"))
    assert (alike.value, alike.n) == (None, 2)
    assert alike.note == "all values are alike: chance is not defined"
    assert rater_agreement([1, 1, 1, 1], list("xyxy"), list("aabb"), measure="percent").value == 1
    assert rater_agreement([], [], []).value is None


def test_full_agreement_has_the_interval_of_a_figure_at_its_bound() -> None:
    table = np.tile([1.0, 2.0, 3.0, 1.0], (6, 1))
    raters, units = (codes.ravel() for codes in np.indices(table.shape))
    e = rater_agreement(table.ravel(), units, Clusters.of(raters, questions=units))
    # Four units, the fewer: 2 × 0.025^(1/4) - 1.
    assert (e.value, e.high) == (1, 1)
    assert e.low == pytest.approx(2 * 0.025**0.25 - 1)


def test_the_order_of_rows_and_the_names_change_nothing() -> None:
    stream = np.random.default_rng(7)
    values, units = stream.integers(1, 4, 40).astype(float), np.repeat(np.arange(10), 4)
    raters = np.concatenate([stream.permutation(6)[:4] for _ in range(10)])
    first = rater_agreement(values, units, Clusters.of(raters, questions=units), measure="ordinal")
    order = stream.permutation(40)
    named = Clusters.of(
        [f"r{9 - k}" for k in raters[order]], questions=[f"u{k * 7 % 10}" for k in units[order]]
    )
    second = rater_agreement(
        values[order], [f"u{k * 7 % 10}" for k in units[order]], named, measure="ordinal"
    )
    assert (first.value, first.se, first.df) == pytest.approx((second.value, second.se, second.df))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="columns differ"):
        rater_agreement([1, 2], ["x", "x"], ["a"])
    with pytest.raises(ValueError, match="columns differ"):
        rater_agreement([1, 2], ["x"], ["a", "b"])
    with pytest.raises(ValueError, match="finite"):
        rater_agreement([1, float("inf")], ["x", "x"], ["a", "b"])
    with pytest.raises(ValueError, match="not of couples"):
        rater_agreement([1, 2], ["x", "x"], Clusters.of(["a", "b"], ["b", "c"]))


def test_raters_of_one_unit_count_once_each() -> None:
    # Three of four agree: 3 of 6 pairs.
    assert figure(np.array([[1.0], [1.0], [1.0], [2.0]]), "percent") == 0.5


def test_a_raters_two_values_of_one_unit_are_no_agreement() -> None:
    # D19: 0.33 came of it; 0.00 without the second 0 of y.
    with pytest.raises(ValueError, match=r"two values of unit 'a': leave one, or their mean"):
        rater_agreement([1, 1, 0, 0, 0], list("aaabb"), list("xxyxy"))
    # Two alike, two apart, a unit that nobody else rated, and a rater beside items as clusters.
    for values, units, raters in (
        ([1, 1, 0], "aab", "xxy"),
        ([1, 2, 2], "aaa", "xyx"),
        ([3, 1, 1, 2], "abbb", "xxyy"),
    ):
        for rows in (list(raters), Clusters.of(list(raters), questions=list(units))):
            with pytest.raises(ValueError, match="two values of unit"):
                rater_agreement(values, list(units), rows, measure="interval")
    # What has no value says nothing twice.
    once = rater_agreement([1, NAN, 0, 0, 0], list("aaabb"), list("xxyxy"))
    assert once.value == rater_agreement([1, 0, 0, 0], list("aabb"), list("xyxy")).value
