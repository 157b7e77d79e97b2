import math

import numpy as np
import pytest
from scipy import stats

from palate.metrics import Clusters, Estimate, clustered_mean, macro_mean
from palate.metrics.estimates import GAIN, Spread, interval, nothing


def test_t_interval_and_p_against_scipy_stats() -> None:
    e = interval(0.6, Spread(0.0016, 8.5, False), n=100, n_units=12)
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
def test_ends_are_clipped_to_the_bounds(
    value: float, bounds: tuple[float, float], low: float | None, high: float | None
) -> None:
    e = interval(value, Spread(0.01, 11.0, False), n=9, n_units=9, null=0.0, bounds=bounds)
    half = stats.t(10).ppf(0.975) * 0.1
    assert e.low == pytest.approx(value - half if low is None else low, abs=1e-12)
    assert e.high == pytest.approx(value + half if high is None else high, abs=1e-12)


def test_no_rows_leave_everything_undefined() -> None:
    assert clustered_mean([], []) == nothing()
    assert macro_mean([math.nan], ["ann"]) == nothing()
    assert clustered_mean([], Clusters.of([], [])) == nothing()
    assert nothing() == Estimate(None, None, None, 0, 0, None, None, None)


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
    assert e.low is not None
    assert e.p is not None
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
        0.75,
        None,
        None,
        4,
        1,
        note="no interval: 1.0 effective users, and more than 2 are needed",
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
