import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from palate.metrics import (
    Clusters,
    Equivalence,
    Estimate,
    clustered_mean,
    equivalence,
    equivalence_power,
    macro_mean,
    minimum_detectable_effect,
    paired_difference,
    share_of,
)
from palate.metrics.estimates import GAIN, Spread, interval


def test_t_interval_and_p_against_scipy_stats() -> None:
    e = interval(0.6, Spread(0.0016, 8.5, False, n=100, n_units=12))
    t = stats.t(7.5)
    assert e.low == pytest.approx(0.6 - t.ppf(0.975) * 0.04, abs=1e-12)
    assert e.high == pytest.approx(0.6 + t.ppf(0.975) * 0.04, abs=1e-12)
    assert e.p == pytest.approx(2 * t.sf(0.1 / 0.04), abs=1e-12)
    assert e.se == pytest.approx(0.04)
    assert (e.df, e.n, e.n_units) == (7.5, 100, 12)


@pytest.mark.parametrize(
    ("value", "bounds", "low", "high"),
    [
        (0.95, (0, 1), None, 1.0),
        (0.05, (0, 1), 0.0, None),
        (-0.9, (-1, 1), -1.0, None),
        (-0.9, (0 - 2, 1), None, None),
    ],
)
def test_ends_are_clipped_to_the_bounds(value, bounds, low, high):
    e = interval(value, Spread(0.01, 11.0, False, n=9, n_units=9), 0.0, bounds)
    half = stats.t(10).ppf(0.975) * 0.1
    assert e.low == pytest.approx(value - half if low is None else low, abs=1e-12)
    assert e.high == pytest.approx(value + half if high is None else high, abs=1e-12)


def test_no_rows_leave_everything_undefined() -> None:
    assert clustered_mean([], []) == Estimate()
    assert macro_mean([math.nan], ["ann"]) == Estimate()
    assert clustered_mean([], Clusters.of([], [])) == Estimate()
    assert Estimate() == Estimate(None, None, None, 0, 0, None, None, None)


def test_no_residual_at_the_null_value_is_a_point() -> None:
    e = clustered_mean([0.5, 0.5, 0.5], ["a", "a", "b"])
    assert e == Estimate(0.5, 0.5, 0.5, 3, 2, se=0.0, df=None, p=1.0)
    assert clustered_mean([0.5], ["a"]).high == 0.5  # one user is enough: a blind scorer is exact


def test_all_right_and_all_wrong_are_one_sided() -> None:
    right = clustered_mean([1, 1, 1, 1], ["a", "b", "c", "d"])
    assert right.low == pytest.approx(0.025**0.25, abs=1e-15)
    assert (right.value, right.high, right.se, right.df) == (1.0, 1.0, None, None)
    assert right.p == pytest.approx(2 * 0.5**4)
    wrong = clustered_mean([0, 0, 0], ["a", "a", "b"])
    assert wrong.high == pytest.approx(1 - 0.025 ** (5 / 9), abs=1e-15)
    assert (wrong.value, wrong.low) == (0.0, 0.0)
    assert wrong.p == pytest.approx(min(1, 2 * 0.5 ** (9 / 5)))


def test_one_user_all_right_says_little() -> None:
    e = clustered_mean([1] * 50, ["a"] * 50)
    assert e.low == pytest.approx(0.025)
    assert e.p == 1.0


@pytest.mark.parametrize("units", [2, 3, 5, 6, 7, 12])
def test_the_one_sided_p_agrees_with_its_interval(units: int) -> None:
    e = clustered_mean([1] * units, list(range(units)))
    assert (e.low > 0.5) == (e.p < 0.05)
    # Clopper-Pearson, which is exact for as many independent trials.
    exact = stats.binomtest(units, units).proportion_ci(0.95, method="exact")
    assert e.low == pytest.approx(exact.low, abs=1e-9)
    assert e.p == pytest.approx(stats.binomtest(units, units).pvalue)


def test_gains_at_a_bound_use_the_unit_scale() -> None:
    up = clustered_mean([1] * 6, list("abcdef"), null=0.0, bounds=GAIN)
    assert up.low == pytest.approx(2 * 0.025 ** (1 / 6) - 1)
    assert up.high == 1.0
    assert up.p == pytest.approx(2 * 0.5**6)
    down = clustered_mean([-1] * 6, list("abcdef"), null=0.0, bounds=GAIN)
    assert down.low == -1.0
    assert down.high == pytest.approx(1 - 2 * 0.025 ** (1 / 6))
    assert down.p == up.p


def test_no_residual_elsewhere_has_no_interval() -> None:
    assert clustered_mean([0.5] * 8, list("aabbccdd"), null=0.4) == Estimate(
        0.5, None, None, 8, 4, note="no interval: all values are alike"
    )
    gains = clustered_mean([0.5] * 8, list("aabbccdd"), null=0.0, bounds=GAIN)
    assert gains == Estimate(0.5, None, None, 8, 4, note="no interval: all values are alike")


def test_residuals_that_cancel_within_users_have_no_interval() -> None:
    assert clustered_mean([1, 0, 1, 0, 1, 0], list("aabbcc")) == Estimate(
        0.5, None, None, 6, 3, note="no interval: the jackknife variance is 0"
    )


def test_one_user_or_two_effective_users_have_no_interval() -> None:
    assert clustered_mean([1, 0, 1, 1], ["a"] * 4) == Estimate(
        0.75, None, None, 4, 1, note="no interval: 1.0 effective users, and more than 2 are needed"
    )
    assert clustered_mean([1, 0], ["a", "b"]).low is None
    assert clustered_mean([1, 0, 1], ["a", "b", "c"]).low is not None
    # Three users, but one holds nearly everything: U_eff = 12² / (100 + 1 + 1) = 1.4.
    assert clustered_mean([1, 0] * 5 + [1, 1], ["a"] * 10 + ["b", "c"]).low is None


def test_no_field_is_ever_nan() -> None:
    cases: list[list[float]] = [[], [1.0], [0.5], [1, 0], [1, 0, 1], [0.5] * 4, [1, 1, 1, 0.5]]
    for values in cases:
        e = clustered_mean(values, list(range(len(values))))
        fields = (e.value, e.low, e.high, e.se, e.df, e.p)
        assert not any(f is not None and math.isnan(f) for f in fields)


def test_a_null_value_out_of_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match=r"null value 2 is outside of \[0, 1\]"):
        clustered_mean([1, 0], ["a", "b"], null=2)


def test_values_are_checked() -> None:
    with pytest.raises(ValueError, match=r"values in \[0, 1\]"):
        clustered_mean([1.5], ["a"])
    with pytest.raises(ValueError, match="one-dimensional"):
        clustered_mean([[1.0]], ["a"])
    with pytest.raises(ValueError, match="values 2, users 1"):
        clustered_mean([1, 0], ["a"])
    with pytest.raises(ValueError, match="NaN"):
        clustered_mean([1, 0], np.array([np.nan, 1.0]))


def test_hand_worked() -> None:
    t = stats.t(10)
    expected = (t.ppf(0.975) + t.ppf(0.8)) * 0.02
    assert minimum_detectable_effect(0.02, 10) == pytest.approx(expected)
    # With many users: 1.95996 + 0.84162.
    assert minimum_detectable_effect(1.0, 1e9) == pytest.approx(2.80158, abs=1e-4)


def test_the_effect_is_found_as_often_as_promised() -> None:
    rng = np.random.default_rng(1)
    df, se = 24, 1 / 5
    effect = minimum_detectable_effect(se, df)
    assert effect is not None
    samples = rng.normal(effect, 1, (2_000, 25))
    found = np.mean(stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05)
    assert found == pytest.approx(0.8, abs=0.04)


def test_no_t_interval_no_effect() -> None:
    point = clustered_mean([0.5] * 4, list("abcd"))
    assert minimum_detectable_effect(point.se, point.df) is None
    assert minimum_detectable_effect(None, 3) is None
    e = clustered_mean([1, 0, 1, 1], list("abcd"))
    assert minimum_detectable_effect(e.se, e.df) is not None


@pytest.mark.parametrize(("se", "df"), [(-1, 3), (1, 0), (math.nan, 3)])
def test_nonsense_is_refused(se: float, df: float) -> None:
    with pytest.raises(ValueError, match="expected se"):
        minimum_detectable_effect(se, df)


def t_estimate(value: float, se: float, df: float, n: int = 400) -> Estimate:
    half = stats.t(df).ppf(0.975) * se
    return Estimate(value, value - half, value + half, n=n, n_units=40, se=se, df=df)


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.floats(0, 1, width=32), min_size=3, max_size=60, unique=True),
    null=st.sampled_from([0.3, 0.5, 0.6]),
    margin=st.sampled_from([0.01, 0.05, 0.2, 0.4]),
)
def test_without_clusters_p_is_that_of_statsmodels(values, null, margin):
    if np.std(values) < 1e-6:
        return
    tested = equivalence(clustered_mean(values, range(len(values))), null=null, margin=margin)
    expected, *_ = DescrStatsW(np.array(values)).ttost_mean(null - margin, null + margin)
    assert tested.p == pytest.approx(float(expected), abs=1e-9)
    assert (tested.finding == "shown") == (expected < 0.05)


def test_hand_worked_of_equivalence() -> None:
    # (0.55 - 0.51) / 0.02 = 2 on 60 degrees of freedom; the other side is further away.
    shown = equivalence(t_estimate(0.51, 0.02, 60, n=800))
    assert shown.finding == shown.words() == "shown"
    assert shown.p == pytest.approx(stats.t(60).sf(2), abs=1e-12)
    # 800 × (2.926405 × 0.02 / 0.05)² = 1096.2
    assert shown.n_needed == 1097
    below = equivalence(t_estimate(0.49, 0.02, 60, n=800))
    assert below.p == pytest.approx(shown.p, abs=1e-12)
    refuted = equivalence(t_estimate(0.691, 0.037, 30))
    assert refuted.finding == refuted.words() == "refuted"
    assert equivalence(t_estimate(0.309, 0.037, 30)).finding == "refuted"
    wide = equivalence(t_estimate(0.559, 0.0431, 12, n=673))
    # 673 × (2.926405 × 0.0431 / 0.05)² = 4282.5
    assert (wide.finding, wide.n_needed) == ("not shown", 4283)
    assert wide.words() == "not shown: about 4,300 pairs needed"
    assert wide.words("couples") == "not shown: about 4,300 couples needed"
    few = equivalence(t_estimate(0.6, 0.1, 30, n=2))
    assert few.words() == "not shown: about 69 pairs needed"
    # Beyond the margin, yet its interval is not wholly so.
    assert equivalence(t_estimate(0.6, 0.04, 30)).finding == "not shown"


def test_the_number_needed_shows_it_8_times_of_10() -> None:
    stream = np.random.default_rng(3)
    needed = equivalence(t_estimate(0.5, 0.5 / 20, 399, n=400)).n_needed
    draws = stream.random((2_000, needed)) < 0.5
    means = draws.mean(axis=1)
    errors = draws.std(axis=1, ddof=1) / np.sqrt(needed)
    half = stats.t(needed - 1).ppf(0.975)
    tests = [
        equivalence(Estimate(m, m - half * se, m + half * se, n=400, se=se, df=needed - 1))
        for m, se in zip(means.tolist(), errors.tolist(), strict=True)
    ]
    assert np.mean([it.finding == "shown" for it in tests]) == pytest.approx(0.8, abs=0.03)


def test_ties_alone_show_nothing() -> None:
    point = clustered_mean([0.5] * 4, list("abcd"))
    assert point.se == 0
    assert equivalence(point) == Equivalence("not shown", 4, note="all values are alike")
    assert equivalence(point, null=0.8).finding == "refuted"


def test_more_pairs_do_not_help_a_value_near_the_margin() -> None:
    near = equivalence(t_estimate(0.54, 0.009, 400, n=3000))
    assert near.n_needed is not None and near.n_needed < 3000
    assert near.words() == "not shown: the value is near the margin"


def test_values_all_alike_at_a_bound_refute_or_show_nothing() -> None:
    # 0.025^(1/10) = 0.69 is beyond 0.55; 0.025^(1/3) = 0.29 is not.
    ten, three = (clustered_mean([1.0] * n, range(n)) for n in (10, 3))
    assert ten.se is None
    assert equivalence(ten).words() == "refuted"
    assert equivalence(ten).p is None
    assert equivalence(clustered_mean([0.0] * 10, range(10))).finding == "refuted"
    assert equivalence(three).words() == "not shown: all values are alike"
    # Even inside of the margin: there is no standard error.
    many = clustered_mean([1.0] * 400, range(400))
    assert many.low > 0.99
    assert equivalence(many, null=0.99).finding == "not shown"


@pytest.mark.parametrize("values", [[], [0.4], [0.4, 0.7], [0.7, 0.7, 0.7]])
def test_without_an_interval_nothing_is_shown(values: list[float]) -> None:
    tested = equivalence(clustered_mean(values, range(len(values))))
    assert tested.words() == "not shown: no interval"
    assert (tested.p, tested.n_needed, tested.n) == (None, None, len(values))


@given(value=st.floats(0, 1), se=st.floats(0.001, 0.3), df=st.floats(1.5, 500))
@example(value=0.55, se=0.02, df=40)
def test_shown_is_the_90_interval_inside_and_refuted_the_95_interval_outside(value, se, df):
    tested, t = equivalence(t_estimate(value, se, df)), stats.t(df)
    assert tested.p is not None
    if abs(tested.p - 0.05) > 1e-9:
        half = t.ppf(0.95) * se
        assert (tested.finding == "shown") == (value - half > 0.45 and value + half < 0.55)
    half = t.ppf(0.975) * se
    assert (tested.finding == "refuted") == (value - half > 0.55 or value + half < 0.45)
    if tested.finding == "refuted":
        assert tested.p > 0.97


def test_it_stands_in_a_document() -> None:
    of_document = TypeAdapter(Equivalence)
    tested = equivalence(t_estimate(0.559, 0.0431, 12, n=673))
    assert of_document.validate_json(of_document.dump_json(tested)) == tested
    assert of_document.dump_python(equivalence(Estimate())) == {
        "finding": "not shown", "n": 0, "p": None, "n_needed": None, "note": "no interval",
    }  # fmt: skip


@pytest.mark.parametrize("margin", [0, -0.1, float("nan")])
def test_a_margin_is_above_0(margin: float) -> None:
    with pytest.raises(ValueError, match="expected a margin above 0"):
        equivalence(Estimate(), margin=margin)


PLANNED = {3: (0.41, 0.06), 6: (0.72, 0.13), 12: (0.85, 0.35), 24: (0.90, 0.64), 48: (0.92, 0.80)}


@pytest.mark.parametrize("raters", PLANNED)
def test_power_of_a_hundred_pairs_rated_three_times(raters: int) -> None:
    powers = [
        equivalence_power(raters, 100, 3, margin=0.25, rater_sd=spread) for spread in (0.08, 0.3)
    ]
    assert powers == pytest.approx(PLANNED[raters], abs=0.006)


def test_the_test_itself_shows_as_many() -> None:
    # An estimate and an independent standard error, as the formula has them.
    stream, se, df = np.random.default_rng(5), math.sqrt(0.81 / 90 + 0.25 / 30 + 0.04 / 9), 8
    values = stream.normal(0, se, 4_000)
    errors = se * np.sqrt(stream.chisquare(df, 4_000) / df)
    half = stats.t(df).ppf(0.975)
    tests = [
        equivalence(Estimate(v, v - half * s, v + half * s, se=s, df=df), null=0, margin=0.4)
        for v, s in zip(values.tolist(), errors.tolist(), strict=True)
    ]
    expected = equivalence_power(9, 30, 3, margin=0.4, rater_sd=0.2)
    assert np.mean([it.finding == "shown" for it in tests]) == pytest.approx(expected, abs=0.025)


def test_the_fewer_of_raters_and_pairs_count_and_two_show_nothing() -> None:
    assert equivalence_power(2, 100, 3, margin=0.25, rater_sd=0) == 0
    assert equivalence_power(40, 2, 3, margin=0.25, rater_sd=0) == 0
    few, many = (equivalence_power(r, 5, 3, margin=1, rater_sd=0) for r in (5, 50))
    assert few == many
    assert equivalence_power(9, 9, 1, margin=0.1, rater_sd=0, noise_sd=0, pair_sd=0) == 1
    with pytest.raises(ValueError, match="margin above 0"):
        equivalence_power(9, 9, 1, margin=0, rater_sd=0)
    with pytest.raises(ValueError, match="expected raters"):
        equivalence_power(0, 9, 1, margin=1, rater_sd=0)


@settings(max_examples=60)
@given(st.integers(0, 10_000))
def test_the_share_of_a_sum_inverts_the_test_of_the_difference(seed: int) -> None:
    # Fieller: r is inside where the mean of part - r whole may be 0, by the same jackknife.
    stream = np.random.default_rng(seed)
    n = 120
    users = Clusters.of(np.repeat(np.arange(n // 4), 4))
    taste = stream.normal(size=n // 4)[np.repeat(np.arange(n // 4), 4)]
    own, alike, other = (
        (stream.random(n) < np.clip(base + 0.1 * taste, 0, 1)).astype(float)
        for base in (0.9, 0.7, 0.4)
    )
    three = (alike, other), (own, other), (own, alike)
    share = share_of(*(paired_difference(x, y, users) for x, y in three))
    part, whole = alike - other, own - other
    assert share.value == pytest.approx(part.mean() / whole.mean())
    assert share.low is not None and share.high is not None
    for end, step in ((share.low, 1e-6), (share.high, -1e-6)):
        inside, outside = (
            clustered_mean(part - r * whole, users, null=0.0, bounds=(-50.0, 50.0)).p
            for r in (end + step, end - step)
        )
        assert outside < 0.05 < inside


def test_a_sum_that_may_be_nothing_has_no_share() -> None:
    some = Estimate(0.02, se=0.02, df=20.0, n=80, n_units=21)
    share = share_of(some, some, Estimate(0.0, se=0.01, df=20.0))
    assert (share.value, share.low, share.high, share.n) == (1.0, None, None, 80)
    assert share.note == "no interval: the sum may be 0"
    exact = Estimate(0.0, 0.0, 0.0, n=80, se=0.0)
    assert share_of(exact, exact, exact).value is None
    all_of_it = share_of(Estimate(0.3, se=0.02, df=20.0), Estimate(0.3, se=0.02, df=20.0), exact)
    assert (all_of_it.value, all_of_it.low, all_of_it.high) == (1.0, 1.0, 1.0)
