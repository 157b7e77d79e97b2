import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from palate.metrics import Equivalence, Estimate, clustered_mean, equivalence


def t_estimate(value: float, se: float, df: float, n: int = 400) -> Estimate:
    half = stats.t(df).ppf(0.975) * se
    return Estimate(value, value - half, value + half, n=n, n_units=40, se=se, df=df)


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.floats(0, 1, width=32), min_size=3, max_size=60, unique=True),
    null=st.sampled_from([0.3, 0.5, 0.6]),
    margin=st.sampled_from([0.01, 0.05, 0.2, 0.4]),
)
def test_without_clusters_p_is_that_of_statsmodels(
    values: list[float], null: float, margin: float
) -> None:
    if np.std(values) < 1e-6:
        return
    tested = equivalence(clustered_mean(values, range(len(values))), null=null, margin=margin)
    expected, *_ = DescrStatsW(np.array(values)).ttost_mean(null - margin, null + margin)
    assert tested.p == pytest.approx(float(expected), abs=1e-9)
    assert (tested.finding == "shown") == (expected < 0.05)


def test_hand_worked() -> None:
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
    assert needed is not None
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
    assert many.low is not None
    assert many.low > 0.99
    assert equivalence(many, null=0.99).finding == "not shown"


@pytest.mark.parametrize("values", [[], [0.4], [0.4, 0.7], [0.7, 0.7, 0.7]])
def test_without_an_interval_nothing_is_shown(values: list[float]) -> None:
    tested = equivalence(clustered_mean(values, range(len(values))))
    assert tested.words() == "not shown: no interval"
    assert (tested.p, tested.n_needed, tested.n) == (None, None, len(values))


@given(value=st.floats(0, 1), se=st.floats(0.001, 0.3), df=st.floats(1.5, 500))
@example(value=0.55, se=0.02, df=40)
def test_shown_is_the_90_interval_inside_and_refuted_the_95_interval_outside(
    value: float, se: float, df: float
) -> None:
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
