import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.errors import UsageError
from palate.metrics import best_of, kl_bound, over_optimisation, usable
from palate.metrics.selection import k_of

NAN = math.nan
# Few score levels, so that ties are the rule.
QUESTION = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.25, 0.5, 1.0])), min_size=1, max_size=8
)


def by_brute_force(scores: list[float], gold: list[float], k: int) -> float:
    picks = []
    for subset in itertools.combinations(range(len(scores)), k):
        top = max(scores[i] for i in subset)
        tied = [Fraction(gold[i]) for i in subset if scores[i] == top]
        picks.append(sum(tied) / len(tied))
    return float(sum(picks) / len(picks))


def columns(question: list[tuple[int, float]]) -> tuple[list[float], list[float]]:
    return [float(s) for s, _ in question], [g for _, g in question]


@given(QUESTION)
def test_equals_all_subsets(question: list[tuple[int, float]]) -> None:
    scores, gold = columns(question)
    ks = list(range(1, len(scores) + 1))
    expected = [by_brute_force(scores, gold, k) for k in ks]
    assert best_of([scores], [gold], ks)[0].tolist() == pytest.approx(expected, abs=1e-13)


def test_hand_worked() -> None:
    # Subsets of two of the scores 3, 2, 2: the first wins two of three, the tie is 0.5 of 0 and 1.
    assert best_of([[3, 2, 2]], [[0.3, 0.0, 1.0]], [2])[0, 0] == pytest.approx((0.6 + 0.5) / 3)


@given(QUESTION)
def test_only_the_order_of_scores_is_read(question: list[tuple[int, float]]) -> None:
    scores, gold = columns(question)
    ks = list(range(1, len(scores) + 1))
    moved = np.exp(np.array([scores])) * 7 - 3
    assert best_of(moved, [gold], ks).tolist() == best_of([scores], [gold], ks).tolist()


@given(QUESTION, st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter(question, random) -> None:
    scores, gold = columns(question)
    order = random.sample(range(len(scores)), len(scores))
    ks = list(range(1, len(scores) + 1))
    again = best_of([[scores[i] for i in order]], [[gold[i] for i in order]], ks)
    assert again[0] == pytest.approx(best_of([scores], [gold], ks)[0], abs=1e-14)


@given(QUESTION)
def test_ends_of_the_curve(question: list[tuple[int, float]]) -> None:
    scores, gold = columns(question)
    n, top = len(scores), max(scores)
    first, last = best_of([scores], [gold], [1, n])[0]
    assert first == pytest.approx(np.mean(gold))
    tied = [g for s, g in zip(scores, gold, strict=True) if s == top]
    assert last == pytest.approx(np.mean(tied))


@given(QUESTION)
def test_the_oracle_never_falls(question: list[tuple[int, float]]) -> None:
    gold = [columns(question)[1]]
    curve = best_of(gold, gold, range(1, len(question) + 1))[0]
    assert bool(np.all(np.diff(curve) >= -1e-14))


def test_pass_at_k_is_a_case_of_it() -> None:
    gold = np.array([[1.0] * 7 + [0.0] * 33])
    ks = [1, 2, 10, 40]
    expected = [1 - math.comb(33, k) / math.comb(40, k) for k in ks]
    assert best_of(gold, gold, ks)[0] == pytest.approx(expected)


@pytest.mark.parametrize("n", [50, 4_000])
def test_thousands_of_samples_lose_no_digits(n: int) -> None:
    rng = np.random.default_rng(0)
    scores, gold = rng.integers(0, n // 3, (1, n)), rng.random((1, n))
    ks = [1, 2, n // 3, n // 2, n - 1, n]
    # Exact integers: P(max has score v) = (C(n_≤, k) - C(n_<, k)) / C(n, k).
    for k, value in zip(ks, best_of(scores, gold, ks)[0], strict=True):
        exact, below, total = Fraction(0), 0, math.comb(n, k)
        for level in np.unique(scores):
            here = scores[0] == level
            upto = below + int(here.sum())
            share = Fraction(math.comb(upto, k) - math.comb(below, k), total)
            exact += share * Fraction(float(gold[0, here].mean()))
            below = upto
        assert value == pytest.approx(float(exact), rel=1e-11)


def test_unusable_samples_count_as_not_drawn() -> None:
    scores, gold = [[1.0, NAN, 3.0, 2.0]], [[0.2, 0.9, NAN, 0.6]]
    values = best_of(scores, gold, [1, 2, 3])
    assert values[0, :2] == pytest.approx(best_of([[1.0, 2.0]], [[0.2, 0.6]], [1, 2])[0])
    assert math.isnan(values[0, 2])
    assert usable(scores, gold).tolist() == [2]


def test_questions_of_unequal_numbers_of_samples() -> None:
    scores = [[1, 2, 3], [1, 2, NAN], [NAN, NAN, NAN]]
    gold = [[0.0, 0.5, 1.0]] * 3
    values = best_of(scores, gold, [3, 1, 2])
    expected = [[1.0, 0.5, 5 / 6], [NAN, 0.25, 0.5], [NAN, NAN, NAN]]
    assert values == pytest.approx(np.array(expected), nan_ok=True)


def test_unbiased_for_fresh_samples() -> None:
    # Normal samples, score = gold + noise of the same size: best of 4 has gold mean m_4 / √2.
    rng = np.random.default_rng(3)
    gold = rng.normal(size=(20_000, 8))
    value = best_of(gold + rng.normal(size=gold.shape), gold, [4])
    assert value.mean() == pytest.approx(1.02938 / math.sqrt(2), abs=4 * value.std() / 141)


@pytest.mark.parametrize("k", [0, -1, 4])
def test_never_a_k_above_n(k: int) -> None:
    with pytest.raises(UsageError, match=f"best of {k} needs"):
        best_of([[1, 2, 3]], [[1, 2, 3]], [1, k])


def test_nonsense_is_refused() -> None:
    with pytest.raises(UsageError, match="no k"):
        best_of([[1.0]], [[1.0]], [])
    with pytest.raises(ValueError, match="one shape"):
        best_of([[1, 2]], [[1]], [1])
    with pytest.raises(ValueError, match="finite"):
        best_of([[math.inf]], [[1]], [1])


@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_the_bound_is_met_without_ties_and_above_the_truth_with_them(k: int) -> None:
    def divergence(outcomes: int) -> float:
        # Equally likely outcomes, ranked: the best of k is outcome i with (i^k - (i-1)^k) / m^k.
        i = np.arange(1, outcomes + 1) / outcomes
        p = i**k - (i - 1 / outcomes) ** k
        p = p[p > 0]
        return float(np.sum(p * np.log(p * outcomes)))

    assert divergence(10) <= kl_bound(k) + 1e-12
    assert divergence(200_000) == pytest.approx(kl_bound(k), abs=1e-3)


@pytest.mark.parametrize("k", [1.0, 1.5, 16.0, 4e5])
def test_k_of_undoes_the_bound(k: float) -> None:
    assert k_of(math.sqrt(kl_bound(k))) == pytest.approx(k, rel=1e-6)


def test_edges() -> None:
    assert k_of(1e3) is None
    with pytest.raises(UsageError, match="at least 1"):
        kl_bound(0.5)


def hacked(
    questions: int, samples: int, harm: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    # Gold rises with the score to a point and falls beyond it.
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(questions, samples))
    gold = scores - harm * np.maximum(scores - 0.5, 0) ** 2 + rng.normal(0, 0.5, scores.shape)
    return scores, gold, list(range(questions))


def test_fit_is_numpys_least_squares() -> None:
    scores, gold, users = hacked(50, 32, 0.5)
    ks = [2, 4, 8, 16]
    fit = over_optimisation(scores, gold, users, [1, *ks])
    d = np.sqrt([kl_bound(k) for k in ks])
    values = best_of(scores, gold, [1, *ks]).mean(axis=0)
    (alpha, minus_beta), *_ = np.linalg.lstsq(
        np.stack([d, d**2], axis=1), values[1:] - values[0], rcond=None
    )
    assert (fit.alpha.value, fit.beta.value) == pytest.approx((alpha, -minus_beta))
    assert fit.ks == (2, 4, 8, 16)
    rest = values[1:] - values[0] - d * (alpha + minus_beta * d)
    assert fit.residual == pytest.approx(float(np.sqrt(np.mean(rest**2))))


def test_a_peak_within_the_data_is_where_the_curve_turns() -> None:
    scores, gold, users = hacked(400, 256, 0.6)
    fit = over_optimisation(scores, gold, users)
    assert fit.peak == "within"
    assert fit.beta.low > 0
    ks = list(range(1, 129))
    curve = best_of(scores, gold, ks).mean(axis=0)
    turn = ks[int(curve.argmax())]
    assert fit.peak_k == pytest.approx(turn, rel=0.35)
    assert fit.peak_gain == pytest.approx(float(curve.max() - curve[0]), abs=0.05)
    assert fit.peak_d == pytest.approx(math.sqrt(kl_bound(fit.peak_k or 0)))


def test_a_peak_beyond_the_data_is_called_one() -> None:
    scores, gold, users = hacked(400, 16, 0.2)
    fit = over_optimisation(scores, gold, users)
    assert fit.peak == "beyond"
    assert (fit.peak_k or 0) > max(fit.ks)


def test_an_honest_scorer_has_no_peak_and_a_perverse_one_starts_at_it() -> None:
    rng = np.random.default_rng(1)
    gold = rng.random((100, 32)) ** 0.05
    up = over_optimisation(-np.log(gold), -np.log(gold), list(range(100)))
    assert (up.peak, up.peak_d, up.peak_k, up.peak_gain) == ("none", None, None, None)
    # d(α - βd) with α < 0 < β loses from the first step on.
    scores = rng.normal(size=(200, 32))
    lost = over_optimisation(scores, -np.exp(scores), list(range(200)))
    assert (lost.peak, lost.peak_d, lost.peak_k, lost.peak_gain) == ("start", 0.0, 1.0, 0.0)


def test_a_bend_that_luck_could_make_has_no_peak() -> None:
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(40):
        gold = rng.normal(size=(20, 16))
        fit = over_optimisation(rng.normal(size=gold.shape), gold, list(range(20)))
        shown = fit.beta.low > 0
        found += fit.beta.value > 0 and not shown
        assert (fit.peak == "none") == (not shown)
        told = (fit.peak_d, fit.peak_k, fit.peak_gain)
        assert (told == (None, None, None)) == (not shown)
    assert found > 5, "a noise scorer bends down in half of the worlds"


def test_two_users_show_no_peak() -> None:
    scores, gold, _ = hacked(400, 256, 0.6)
    fit = over_optimisation(scores, gold, [k % 2 for k in range(400)])
    assert (fit.beta.value or 0) > 0
    assert fit.beta.low is None
    assert fit.peak == "none"


def test_the_default_sizes_are_the_solid_ones() -> None:
    fit = over_optimisation(*hacked(10, 16, 0.2))
    assert fit.ks == (2, 3, 4, 5, 6, 7, 8)
    assert max(over_optimisation(*hacked(5, 200, 0.2)).ks) == 100


def test_questions_with_too_few_samples_are_counted() -> None:
    scores, gold, users = hacked(20, 16, 0.2)
    scores[:3, 4:] = math.nan
    fit = over_optimisation(scores, gold, users)
    assert fit.n_left_out == 3
    assert fit.alpha.n == 17


def test_bad_input() -> None:
    scores, gold, users = hacked(4, 4, 0.2)
    with pytest.raises(UsageError, match="at least 6"):
        over_optimisation(scores, gold, users)
    with pytest.raises(UsageError, match="two sizes"):
        over_optimisation(scores, gold, users, [1, 4])
    with pytest.raises(UsageError, match="best of 5"):
        over_optimisation(scores, gold, users, [2, 5])
    scores[:, 0] = math.nan
    with pytest.raises(UsageError, match="no question has 4"):
        over_optimisation(scores, gold, users, [2, 4])


def test_intervals_of_the_fit_cover() -> None:
    ks = [2, 3, 4, 6, 8]
    scores, gold, users = hacked(40_000, 16, 0.4, seed=99)
    truth = over_optimisation(scores, gold, users, ks)
    covered = np.zeros(2)
    for seed in range(300):
        fit = over_optimisation(*hacked(25, 16, 0.4, seed=seed), ks)
        for i, (e, t) in enumerate(((fit.alpha, truth.alpha), (fit.beta, truth.beta))):
            covered[i] += e.low <= t.value <= e.high
    assert bool(np.all(covered / 300 >= 0.92)), covered / 300
