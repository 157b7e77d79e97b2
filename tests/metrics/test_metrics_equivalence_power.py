import math

import numpy as np
import pytest
from scipy import stats

from palate.metrics import Estimate, equivalence, equivalence_power

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
