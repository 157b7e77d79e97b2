import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.errors import UsageError
from palate.metrics.selection import best_of, usable

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
