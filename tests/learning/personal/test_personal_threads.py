"""BLAS threads: one where small systems are solved, all of them before, after and elsewhere."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.optimize
from heads import linear_world
from threadpoolctl import threadpool_info, threadpool_limits

from palate.learning import heads as heads_
from palate.learning import solvers
from palate.learning.personal import method_of
from palate.learning.solvers import one_blas_thread, ridge_offsets

SEVERAL = 2


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def several_threads():
    with threadpool_limits(SEVERAL, user_api="blas"):
        if blas_threads() != {SEVERAL}:
            pytest.skip("this BLAS does not let its threads be set")
        yield


@pytest.fixture(scope="module")
def train():
    return linear_world(np.random.default_rng(0).normal(size=(12, 5)) * 3, each=30).train


def spied(monkeypatch, module, name):
    """Note how many threads there are whenever a function is called."""
    seen, original = [], getattr(module, name)

    def spy(*args, **options):
        seen.append(blas_threads())
        return original(*args, **options)

    monkeypatch.setattr(module, name, spy)
    return seen


NEAR = {"lore": 1e-6, "mixture": 1e-6, "pal-a": 1e-2}
"""Of fits with several minima, or flat ones: a BLAS that divides a sum rounds it differently, and
the path to a minimum that is told by little then ends beside it. Others agree to 1e-10."""
SHRUNK = {"ridge": 1.0, "strength": 30.0, "starts": 1}
FITS = {
    "bradley-terry": {},
    "user-heads": {},
    "mixture": {"heads": 2, "starts": 1, "concentration": 2.0},
    "lore": {**SHRUNK, "concentration": 1.0},
    "pref": SHRUNK,
    "pal-a": {**SHRUNK, "concentration": 1.0},
}


@pytest.mark.parametrize(("method", "options"), FITS.items(), ids=FITS)
def test_a_small_fit_has_one_thread_and_the_same_result(monkeypatch, train, method, options):
    seen = spied(monkeypatch, scipy.optimize, "minimize")
    limited = method_of(method).fit(train, **options)
    assert seen and all(count == {1} for count in seen)
    assert blas_threads() == {SEVERAL}
    monkeypatch.setattr(solvers, "LARGE", 0)
    seen.clear()
    free = method_of(method).fit(train, **options)
    assert seen and all(count == {SEVERAL} for count in seen), "a large fit has them all"
    assert limited.options == free.options
    states = limited.adapt(train), free.adapt(train)
    for ours, theirs in [(limited.tensors(), free.tensors()), states]:
        assert ours.keys() == theirs.keys()
        for name in ours:
            near = NEAR.get(method, 1e-10)
            assert ours[name] == pytest.approx(theirs[name], rel=near, abs=near)


@pytest.mark.parametrize(("m", "d"), [(120, 140), (140, 120)])
def test_systems_that_a_blas_would_divide_have_the_same_solution(m, d):
    stream = np.random.default_rng(1)
    rows, margins = stream.normal(size=(2, m, d)), stream.normal(size=(2, m))
    mask = stream.random((2, m)) < 0.9
    free = ridge_offsets(rows, mask, margins, 0.1)
    with one_blas_thread():
        limited = ridge_offsets(rows, mask, margins, 0.1)
    assert limited == pytest.approx(free, rel=1e-10, abs=1e-10)


def test_users_are_adapted_by_one_thread_however_many_they_are(monkeypatch, train):
    model = method_of("user-heads").fit(train)
    largest = int(train.counts.max()) * train.width
    monkeypatch.setattr(solvers, "LARGE", largest + 1)
    seen = spied(monkeypatch, heads_, "ridge_offsets")
    model.adapt(train)
    assert train.differences.size > largest and seen and all(count == {1} for count in seen)
    monkeypatch.setattr(solvers, "LARGE", largest)
    seen.clear()
    model.adapt(train)
    assert seen and all(count == {SEVERAL} for count in seen), "one user's system is large"


def test_a_failed_fit_gives_the_threads_back(monkeypatch, train):
    def fails(*_, **__):
        assert blas_threads() == {1}
        raise FloatingPointError

    monkeypatch.setattr(scipy.optimize, "minimize", fails)
    with pytest.raises(FloatingPointError):
        method_of("mixture").fit(train)
    assert blas_threads() == {SEVERAL}


def test_blocks_may_lie_inside_each_other_and_overlap_in_two_threads():
    with one_blas_thread():
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {SEVERAL}

    entered, may_leave = threading.Event(), threading.Event()

    def other():
        with one_blas_thread():
            entered.set()
            may_leave.wait(10)

    worker = threading.Thread(target=other)
    with one_blas_thread():
        worker.start()
        assert entered.wait(10)
        assert blas_threads() == {1}
    may_leave.set()
    worker.join()
    assert blas_threads() == {SEVERAL}, "whoever leaves last has not kept the limit"
    with one_blas_thread():
        assert blas_threads() == {1}


def test_a_large_matrix_has_every_thread():
    with one_blas_thread(solvers.LARGE):
        assert blas_threads() == {SEVERAL}
    with one_blas_thread(solvers.LARGE - 1):
        assert blas_threads() == {1}
