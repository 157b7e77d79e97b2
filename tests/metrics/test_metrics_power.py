import math

import numpy as np
import pytest
from scipy import stats

from palate.metrics import clustered_mean, minimum_detectable_effect


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
