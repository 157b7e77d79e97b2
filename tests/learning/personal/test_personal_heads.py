"""Global head, heads per user, mixture: planted truth, cold start, hard choices."""

from __future__ import annotations

import numpy as np
import pytest
from heads import linear_world
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from palate.errors import UsageError
from palate.learning.choices import Choices
from palate.learning.heads import BradleyTerry, MixtureOfHeads, UserHeads, fit_head
from palate.learning.shrinkage import margins
from palate.learning.solvers import ridge_offsets
from palate.learning.states import repeated

METHODS = [BradleyTerry, UserHeads, MixtureOfHeads]
D = 12


def alike(users: int = 60, seed: int = 1):
    head = np.random.default_rng(seed).normal(size=D) * 6
    return np.repeat(head[None], users, axis=0)


@pytest.fixture(scope="module")
def everyone_alike():
    return linear_world(alike(), each=40, seed=2)


@pytest.fixture(scope="module", params=METHODS, ids=lambda method: method.method)
def fitted(request, everyone_alike):
    return request.param.fit(everyone_alike.train)


def test_where_all_are_alike_nobody_loses_by_being_asked(everyone_alike, fitted):
    world = everyone_alike
    yardstick = BradleyTerry.fit(world.train)
    reached = world.accuracy(margins(fitted, fitted.adapt(world.train), world.test))
    general = world.accuracy(margins(yardstick, yardstick.adapt(world.train), world.test))
    assert general > 0.9
    assert reached >= general - 0.01


def test_heads_per_user_find_users_who_differ():
    heads = np.random.default_rng(3).normal(size=(80, D)) * 8
    world = linear_world(heads, each=250, seed=4)
    model = UserHeads.fit(world.train)
    reached = world.accuracy(margins(model, model.adapt(world.train), world.test))
    assert reached - 0.5 >= 0.9 * 0.5, "the oracle is right on every pair"


def test_a_mixtures_score_is_the_log_odds_against_the_average_response():
    stream = np.random.default_rng(7)
    model = MixtureOfHeads(stream.normal(size=(2, D)), np.array([0.5, 0.5]), {})
    states = {"shares": np.array([[0.3, 0.7]], np.float32)}
    pair = stream.normal(size=(1, 2, D)).astype(np.float32)
    for response, score in zip(pair[0], model.score(states, pair)[0], strict=True):
        p = float(1 / (1 + np.exp(-response @ model.heads.T)) @ states["shares"][0])
        assert score == pytest.approx(np.log(p / (1 - p)), abs=1e-5)
    alone = model.score(states, pair[:, 1:])
    beside = model.score(states, pair)[0, 1]
    assert alone[0, 0] == pytest.approx(beside), "what else is in the slate says nothing"


HARD = {"one": [(0, 1)], "contradictory": [(0, 1), (1, 0)], "separable": [(0, 1)] * 40}


@pytest.mark.parametrize("listed", HARD.values(), ids=HARD)
def test_hard_choices_give_finite_states(everyone_alike, fitted, listed):
    features = everyone_alike.train.features
    chosen, rejected = np.array(listed).T
    choices = Choices(features, np.zeros(len(listed), np.int64), chosen, rejected, users=1)
    states = fitted.adapt(choices)
    found = margins(fitted, states, choices)
    assert np.isfinite(found).all()
    before = margins(fitted, repeated(fitted.prior(), 1), choices)
    if listed == HARD["contradictory"]:
        assert found == pytest.approx(before, abs=0.3)
    else:
        assert (found >= before - 1e-6).all()


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 8), st.integers(1, 6),
    st.floats(0.01, 10), st.integers(0, 10**6),
)  # fmt: skip
def test_newton_finds_the_minimum_whichever_way_it_goes(users, m, d, variance, seed):
    stream = np.random.default_rng(seed)
    rows, margins = stream.normal(size=(users, m, d)) * 3, stream.normal(size=(users, m))
    mask = stream.random((users, m)) < 0.8
    found = ridge_offsets(rows, mask, margins, variance)

    def loss(delta, k):
        z = margins[k][mask[k]] + rows[k][mask[k]] @ delta
        return np.logaddexp(0, -z).sum() + delta @ delta / (2 * variance)

    for k in range(users):
        best = minimize(loss, np.zeros(d), args=(k,), method="BFGS", options={"gtol": 1e-8})
        assert loss(found[k], k) <= best.fun + 1e-6


@pytest.mark.parametrize("responses", [20, 900], ids=["shared", "fresh"])
def test_the_global_head_is_logistic_regression(responses):
    from sklearn.linear_model import LogisticRegression

    stream = np.random.default_rng(9)
    table = stream.normal(size=(responses, 4)).astype(np.float32)
    sides = np.array([stream.choice(responses, 2, replace=False) for _ in range(300)])
    choices = Choices(table, np.zeros(300, np.int64), *sides.T, users=1)
    rows, weights = choices.differences, stream.uniform(0.1, 3, size=300)
    both, labels = np.concatenate([rows, -rows]), np.repeat([1, 0], len(rows))
    # Each choice stands in twice, so their sum of losses is twice ours.
    other = LogisticRegression(C=1 / 4.0, fit_intercept=False, tol=1e-10)
    other.fit(both, labels)
    assert fit_head(choices, ridge=2.0) == pytest.approx(other.coef_[0], abs=1e-3)
    other.fit(both, labels, np.tile(weights, 2))
    assert fit_head(choices, 2.0, weights) == pytest.approx(other.coef_[0], abs=1e-3)


def test_bad_options_are_said():
    empty = Choices(
        np.zeros((2, 3), np.float32), *(np.empty(0, np.int64) for _ in range(3)), users=2
    )
    with pytest.raises(UsageError, match="variance=-1"):
        UserHeads.fit(empty, variance=-1)
    with pytest.raises(UsageError, match="whole number"):
        MixtureOfHeads.fit(empty, heads=2.5)
