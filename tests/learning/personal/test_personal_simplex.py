"""The batched fit on the simplex against a general optimiser, and its optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from palate.learning.solvers.simplex import simplex_weights


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
