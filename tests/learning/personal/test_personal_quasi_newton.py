"""Each function finds its own minimum, whoever is minimised beside it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from palate.learning.solvers.quasi_newton import minimise_each

WIDTH = 12


def logistic(problems):
    """Regularised logistic losses, one for each matrix of differences."""

    def objective(which, points):
        asked.append(which.tolist())
        values, slopes = [], []
        for k, z in zip(which, points, strict=True):
            margins = problems[k] @ z
            values.append(np.logaddexp(0, -margins).sum() + z @ z / 2)
            slopes.append(z - problems[k].T @ (1 / (1 + np.exp(margins))))
        return np.array(values), np.array(slopes).reshape(len(which), WIDTH)

    asked: list[list[int]] = []
    return objective, asked


def drawn(seed: int):
    stream = np.random.default_rng(seed)
    sizes = [(1, 1.0), (3, 5.0), (40, 2.0), (0, 1.0), (10, 0.1), (100, 1.0)]
    return [scale * stream.normal(size=(n, WIDTH)) for n, scale in sizes]


@given(seed=st.integers(0, 1000))
def test_minima_are_those_that_scipy_finds(seed):
    problems = drawn(seed)
    objective, _ = logistic(problems)
    points, values = minimise_each(objective, np.zeros((len(problems), WIDTH)), close=1e-9)
    for k in range(len(problems)):
        found = minimize(
            lambda z, k=k: tuple(it[0] for it in objective(np.array([k]), z[None])),
            np.zeros(WIDTH), jac=True, method="L-BFGS-B",
        )  # fmt: skip
        assert values[k] == pytest.approx(found.fun, rel=1e-5)
        assert np.abs(points[k] - found.x).max() < 5e-3
        assert values[k] == objective(np.array([k]), points[k : k + 1])[0][0]


def test_neighbours_change_nothing():
    problems = drawn(0)
    together, _ = minimise_each(logistic(problems)[0], np.zeros((len(problems), WIDTH)))
    for k, own in enumerate(problems):
        alone, _ = minimise_each(logistic([own])[0], np.zeros((1, WIDTH)))
        assert np.array_equal(alone[0], together[k])


def test_who_has_arrived_is_not_asked_again():
    objective, asked = logistic(drawn(1))
    points, _ = minimise_each(objective, np.zeros((6, WIDTH)))
    assert asked[0] == [0, 1, 2, 3, 4, 5]
    assert 3 not in asked[1], "nothing pulls at it"
    assert not points[3].any()
    assert len(asked[-1]) < 5
    assert minimise_each(objective, np.zeros((0, WIDTH)))[0].shape == (0, WIDTH)


def test_a_function_that_bends_down_or_breaks_is_never_left_higher():
    def waves(which, points):
        values = np.where(points[:, 0] > 2.5, np.nan, np.cos(3 * points[:, 0]) + points[:, 0] / 9)
        return values, -3 * np.sin(3 * points) + 1 / 9

    start = np.array([[0.1], [1.0], [2.4]])
    points, values = minimise_each(waves, start)
    assert (values <= waves(np.arange(3), start)[0]).all()
    assert np.abs(-3 * np.sin(3 * points[:2]) + 1 / 9).max() < 0.1
    assert 2.4 < points[2, 0] <= 2.5, "beyond, there is no value"
