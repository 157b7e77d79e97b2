"""The numerical jobs of the methods: many minima at once, weights on the simplex, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from worlds import CASES, Size

from palate.learning import low_rank
from palate.learning.choices import Choices
from palate.learning.low_rank import LoRe, PReF, joint_loss
from palate.learning.solvers import minimise_each, simplex_weights

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


def test_one_short_step_in_a_bent_valley_is_no_rest():
    def valley(which, points):
        x, y = points.T
        off = y - x * x
        slope = np.stack([-2 * (1 - x) - 400 * x * off, 200 * off], axis=1)
        return (1 - x) ** 2 + 100 * off**2, slope

    points, _ = minimise_each(valley, np.array([[0.8, 2.0], [1.9, 1.9]]))
    assert np.abs(points - 1).max() < 0.01


def problem(seed: int, users: int, choices: int, b: int, scale: float) -> tuple[np.ndarray, ...]:
    stream = np.random.default_rng(seed)
    rows = scale * stream.normal(size=(users, choices, b))
    mask = stream.random((users, choices)) < 0.7
    return rows, mask, stream.dirichlet(np.full(b, 2.0)) * 0.99 + 0.01 / b


@pytest.mark.parametrize("concentration", [0.3, 3.0])
def test_a_general_optimiser_finds_nothing_better(concentration: float) -> None:
    rows, mask, centre = problem(0, 6, 9, 4, 3.0)
    found = simplex_weights(rows, mask, centre, concentration)
    for user in range(len(rows)):
        own = rows[user][mask[user]]

        def loss(w: np.ndarray, own: np.ndarray = own) -> float:
            prior = concentration * centre @ np.log(np.maximum(w, 1e-12))
            return float(np.logaddexp(0, -own @ w).sum() - prior)

        other = minimize(
            loss, centre, method="SLSQP", bounds=[(1e-9, 1)] * 4, tol=1e-12,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1}, options={"maxiter": 500},
        )  # fmt: skip
        assert loss(found[user]) <= other.fun + 1e-8
        assert np.allclose(found[user], other.x, atol=1e-3)


@settings(max_examples=60)
@given(
    st.integers(0, 10**6), st.integers(1, 12), st.integers(2, 8),
    st.sampled_from([1e-3, 1.0, 30.0, 1e3]), st.sampled_from([1e-2, 1.0, 100.0]),
)  # fmt: skip
def test_the_gradient_is_the_same_along_every_weight(
    seed: int, choices: int, b: int, scale: float, concentration: float
) -> None:
    rows, mask, centre = problem(seed, 5, choices, b, scale)
    w = simplex_weights(rows, mask, centre, concentration)
    assert np.allclose(w.sum(axis=1), 1)
    assert (w > 0).all()
    p = np.where(mask, expit(-np.einsum("umb,ub->um", rows, w)), 0)
    gradient = -np.einsum("um,umb->ub", p, rows) - concentration * centre / w
    # At the optimum the gradient is one number for all of a user's weights, up to their size.
    common = (w * gradient).sum(axis=1, keepdims=True)
    apart = np.abs(w * (gradient - common)).max()
    assert apart < 1e-5 * max(1.0, scale)


def test_without_choices_the_answer_is_the_centre() -> None:
    rows, mask, centre = problem(1, 3, 4, 5, 2.0)
    found = simplex_weights(rows, np.zeros_like(mask), centre, 0.5)
    assert np.allclose(found, centre, atol=1e-12)


def test_more_concentration_keeps_users_nearer_to_the_centre() -> None:
    rows, mask, centre = problem(2, 5, 8, 4, 3.0)
    apart = [
        np.abs(simplex_weights(rows, mask, centre, c) - centre).sum() for c in (0.1, 1, 10, 100)
    ]
    assert apart == sorted(apart, reverse=True)


TINY = Size(seen=4, new=1, choices=3, tests=1, width=5)
OPTIONS = {"strength": 0.7, "concentration": 1.3, "components": 4}


def loss_of(name: str) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """Return a method's joint loss on a tiny world, and arrays to take it at."""
    method, stream = CASES[name].method, np.random.default_rng(3)
    choices = CASES[name].world(0, TINY).seen
    head = stream.normal(size=5)
    options = {**method.defaults, **OPTIONS}
    model = method.begin(choices, head, options, (0, 0))
    if name == "pref":
        loss, arrays = joint_loss(choices, head, 0.7, 6), [model.psi, np.zeros((4, 6))]
    else:
        model = model.changed(shares=stream.dirichlet(np.ones(len(model.shares))))
        loss = model.with_prior(model.joint(choices, head))
        arrays = [getattr(model, field) for field in model.fitted]
        arrays.append(np.zeros((4, len(model.shares))))
    return loss, [array + stream.normal(size=array.shape) for array in arrays]


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_loss(name: str) -> None:
    loss, arrays = loss_of(name)
    _, gradients = loss(*arrays)
    step = 1e-6
    for which, array in enumerate(arrays):
        for place in np.ndindex(array.shape):
            values = []
            for sign in (1, -1):
                moved = [one.copy() for one in arrays]
                moved[which][place] += sign * step
                values.append(loss(*moved)[0])
            slope = (values[0] - values[1]) / (2 * step)
            assert gradients[which][place] == pytest.approx(slope, abs=1e-6, rel=1e-5)


def many(users: int, each: int, width: int) -> Choices:
    stream = np.random.default_rng(0)
    table = stream.standard_normal((500, width), dtype=np.float32) / np.sqrt(width)
    chosen = stream.integers(500, size=users * each)
    rejected = (chosen + 1 + stream.integers(499, size=users * each)) % 500
    return Choices(table, np.repeat(np.arange(users), each), chosen, rejected, users)


@pytest.mark.parametrize(("method", "solver"), [(LoRe, "simplex_weights"), (PReF, "ridge_offsets")])
def test_all_users_are_adapted_in_one_call(
    monkeypatch: pytest.MonkeyPatch, method: type[LoRe | PReF], solver: str
) -> None:
    calls, real = [], getattr(low_rank, solver)

    def counted(rows: np.ndarray, *rest: object) -> np.ndarray:
        calls.append(len(rows))
        return np.asarray(real(rows, *rest))

    monkeypatch.setattr(low_rank, solver, counted)
    basis = 10 * np.random.default_rng(1).normal(size=(64, 6))
    model = LoRe(basis, np.full(6, 1 / 6), {"concentration": 1.0})
    if method is PReF:
        model = PReF(basis, np.eye(6)[0], np.eye(6), {})
    (found,) = model.adapt(many(2000, 20, 64)).values()
    assert calls == [2000] and np.isfinite(found).all()
    assert method is PReF or np.allclose(found.sum(axis=1), 1, atol=1e-5)
