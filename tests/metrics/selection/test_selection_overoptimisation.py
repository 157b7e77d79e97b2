import math

import numpy as np
import pytest

from palate.errors import UsageError
from palate.metrics.selection import best_of, kl_bound, over_optimisation


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
    assert fit.beta.low is not None
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
        assert fit.beta.value is not None
        assert fit.beta.low is not None
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
