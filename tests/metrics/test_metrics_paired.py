import gc
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from palate.metrics import Clusters, clustered_mean, holm, paired_difference, sign_flip_test

NAN = math.nan
DIFFERENCES = st.lists(
    st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), st.integers(0, 7)),
    min_size=1,
    max_size=30,
)


def test_difference_hand_worked() -> None:
    # Differences 1, 0, 0, 1: mean 1/2, classical standard error 1/√12.
    e = paired_difference([1, 1, 0, 1], [0, 1, 0, 0], list("abcd"))
    assert e.value == 0.5
    assert e.se == pytest.approx(1 / math.sqrt(12))
    assert e.p == pytest.approx(stats.ttest_1samp([1, 0, 0, 1], 0).pvalue)


def test_only_rows_scored_in_both_count() -> None:
    e = paired_difference([1, NAN, 0, 1, 1], [0, 1, NAN, 1, 0.5], list("abcde"))
    assert (e.n, e.n_units, e.value) == (3, 3, 0.5)


def test_the_same_scorer_twice_differs_by_nothing() -> None:
    x = [1, 0, 0.5, 1]
    e = paired_difference(x, x, list("aabb"))
    assert (e.value, e.low, e.high, e.p) == (0, 0, 0, 1)
    couples = paired_difference(x, x, Clusters.of("abcd", "bcda"))
    assert (couples.value, couples.low, couples.high, couples.p) == (0, 0, 0, 1)


def test_couple_difference_is_the_couple_mean_of_differences() -> None:
    x, y = np.array([1, 0.5, 0, 1, 0.5]), np.array([0.5, 0.5, 0.5, 0, NAN])
    a, b = list("abcda"), list("bcdec")
    e = paired_difference(x, y, Clusters.of(a, b))
    assert e == clustered_mean((x - y)[:4], Clusters.of(a[:4], b[:4]), null=0.0, bounds=(-1, 1))
    assert e.value == 0.25


@given(DIFFERENCES)
def test_exchanging_the_two_turns_the_sign(rows: list[tuple[float, int]]) -> None:
    d, users = np.array([r[0] for r in rows]), [r[1] for r in rows]
    x, y = np.maximum(d, 0), np.maximum(-d, 0)
    e, f = paired_difference(x, y, users), paired_difference(y, x, users)
    assert e.value == pytest.approx(-(f.value or 0.0))
    assert (e.low is None) == (f.high is None)
    if e.low is not None and f.high is not None:
        assert e.low == pytest.approx(-f.high, abs=1e-12)
        assert -1 <= e.low <= (e.value or 0.0)


def test_values_out_of_the_unit_interval_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        paired_difference([-1.0], [0.0], ["a"])
    with pytest.raises(ValueError, match="x 1, y 2"):
        paired_difference([1.0], [0.0, 1.0], ["a"])


def brute_force_p(sums: list[float]) -> float:
    observed = abs(sum(sums))
    flips = [
        abs(sum(s * d for s, d in zip(signs, sums, strict=True)))
        for signs in itertools.product([1, -1], repeat=len(sums))
    ]
    return sum(f >= observed - 1e-9 for f in flips) / len(flips)


def test_sign_flip_hand_worked() -> None:
    # Sums 2, 1, -1: of |±2 ±1 ±1| the values 4, 2, 2, 0 twice each; 6 of 8 reach 2.
    assert sign_flip_test([1, 1, 1, -1], list("aabc")) == 6 / 8


@given(DIFFERENCES)
def test_sign_flip_enumerates_small_worlds(rows: list[tuple[float, int]]) -> None:
    sums = [sum(d for d, u in rows if u == user) for user in {u for _, u in rows}]
    p = sign_flip_test([r[0] for r in rows], [r[1] for r in rows])
    assert p == pytest.approx(brute_force_p(sums))


def test_sign_flip_agrees_with_scipy_on_one_row_per_user() -> None:
    d = np.array([0.5, 1, 1, -0.5, 1, 0.5, 0, 1])
    oracle = stats.permutation_test(
        (d,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert sign_flip_test(d, list(range(8))) == pytest.approx(oracle.pvalue)


def test_sign_flip_draws_close_to_the_exact_p() -> None:
    # 13 users: one too many to enumerate; their exact p is known by brute force.
    d = [1, 1, 1, 1, 0.5, 0.5, 0.5, 1, -1, -0.5, 1, 0.5, -1]
    p = sign_flip_test(d, list(range(13)), draws=20_000)
    assert p == pytest.approx(brute_force_p(d), abs=0.015)
    assert p == sign_flip_test(d, list(range(13)), draws=20_000)
    assert p != sign_flip_test(d, list(range(13)), draws=20_000, seed=1)


def test_sign_flip_never_says_zero() -> None:
    assert sign_flip_test([1.0] * 40, list(range(40)), draws=99) == 1 / 100


@settings(max_examples=25)
@given(st.lists(st.floats(-1, 1), min_size=14, max_size=20), st.randoms(use_true_random=False))
def test_sign_flip_does_not_see_order_names_or_direction(values: list[float], random: Any) -> None:
    users = list(range(len(values)))
    order = random.sample(users, len(users))
    p = sign_flip_test(values, users, draws=200)
    turned = [-values[i] for i in order]
    assert sign_flip_test(turned, [f"u{i}" for i in order], draws=200) == p


def test_sign_flip_keeps_its_level_under_the_null() -> None:
    rng = np.random.default_rng(2)
    users = np.repeat(np.arange(20), 5)
    worlds = 200
    rejected = 0
    for _ in range(worlds):
        # One sign per user: rows of a user are wholly dependent.
        d = np.repeat(rng.choice([-1.0, 1.0], 20), 5) * rng.choice([0.5, 1.0], 100)
        p = sign_flip_test(d, users, draws=400)
        rejected += p < 0.05
    assert rejected / worlds <= 0.1


def test_sign_flip_edges() -> None:
    assert sign_flip_test([], []) is None
    assert sign_flip_test([NAN], ["a"]) is None
    assert sign_flip_test([0.0, 0.0], ["a", "b"]) == 1
    assert sign_flip_test([1.0], ["a"]) == 1
    assert sign_flip_test([1.0, NAN, 1.0], ["a", "b", "b"]) == 0.5
    with pytest.raises(ValueError, match="draws"):
        sign_flip_test([1.0], ["a"], draws=0)
    with pytest.raises(ValueError, match="finite"):
        sign_flip_test([math.inf], ["a"])


def test_sign_flip_over_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    d, users = np.linspace(-0.4, 1, 30), list(range(30))
    whole = sign_flip_test(d, users, draws=1_000)
    monkeypatch.setattr("palate.metrics.paired.CHUNK", 70)
    assert sign_flip_test(d, users, draws=1_000) == pytest.approx(whole, abs=0.05)


def test_five_thousand_users() -> None:
    rng = np.random.default_rng(0)
    users = rng.integers(0, 5_000, 100_000)
    p = sign_flip_test(rng.choice([-1, 0, 1], 100_000), users, draws=2_000)
    t = clustered_mean(rng.choice([-1, 0, 1], 100_000), users, null=0, bounds=(-1, 1))
    assert 0 < p <= 1
    assert t.p is not None


def test_holm_hand_worked() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == [0.03, 0.06, 0.06, 0.02]


@given(st.lists(st.none() | st.floats(0, 1), max_size=20))
def test_holm_against_statsmodels(pvalues: list[float | None]) -> None:
    known = [p for p in pvalues if p is not None]
    gc.freeze()  # every call of multipletests collects garbage: nothing that other tests hold
    expected = list(multipletests(known, method="holm")[1]) if known else []
    gc.unfreeze()
    got = holm(pvalues)
    assert [p is None for p in got] == [p is None for p in pvalues]
    assert [p for p in got if p is not None] == pytest.approx(expected)


@pytest.mark.parametrize("bad", [-0.1, 1.1, NAN])
def test_holm_refuses_what_is_no_p(bad: float) -> None:
    with pytest.raises(ValueError, match="p-values"):
        holm([0.5, bad])
