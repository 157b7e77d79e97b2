"""The next question against its formula, and against asking at random."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from palate.learning import next_question
from palate.learning.choices import Choices
from palate.learning.low_rank import PReF, precision

J, WIDTH, PAIRS = 4, 10, 60


def planted(seed: int) -> tuple[PReF, np.ndarray]:
    stream = np.random.default_rng(seed)
    factor = np.tril(stream.normal(size=(J, J))) + 2 * np.eye(J)
    model = PReF(2 * stream.normal(size=(WIDTH, J)), stream.normal(size=J), factor, {})
    return model, (stream.normal(size=(PAIRS, 2, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32)


def answers(pairs: np.ndarray, asked: list[list[int]], first: list[list[bool]]) -> Choices:
    """Return users who were asked these pairs; `first` says where they took the first response."""
    user = np.repeat(np.arange(len(asked)), [len(own) for own in asked])
    which = np.array([pair for own in asked for pair in own], np.int64)
    taken = np.array([one for own in first for one in own], bool)
    table = pairs.reshape(-1, pairs.shape[2])
    chosen, rejected = 2 * which + ~taken, 2 * which + taken
    return Choices(table, user, chosen, rejected, len(asked))


def test_it_is_the_argmax_of_the_formula() -> None:
    model, pairs = planted(0)
    answered = answers(pairs, [[3, 7, 11], [5]], [[True, False, True], [False]])
    found = next_question(model, answered, pairs)
    v = (pairs[:, 0].astype(np.float64) - pairs[:, 1]) @ model.psi
    factors = model.adapt(answered)["factors"].astype(np.float64)
    for user, asked in enumerate([[3, 7, 11], [5]]):
        m = np.linalg.inv(model.factor @ model.factor.T)
        for pair in asked:
            p = expit(v[pair] @ factors[user])
            m += p * (1 - p) * np.outer(v[pair], v[pair])
        p = expit(v @ factors[user])
        gain = (p * (1 - p)) ** 2 * np.einsum("pj,jk,pk->p", v, np.linalg.inv(m), v)
        assert found[user] == np.argmax(gain)


def test_the_first_question_is_random_but_seeded() -> None:
    model, pairs = planted(1)
    nothing = answers(pairs, [[], []], [[], []])
    drawn = [next_question(model, nothing, pairs, seed=seed) for seed in range(20)]
    assert all(len(set(one.tolist())) == 1 for one in drawn)
    assert len({int(one[0]) for one in drawn}) > 5
    assert np.array_equal(drawn[4], next_question(model, nothing, pairs, seed=4))


def test_users_who_answer_such_questions_are_known_sooner_than_by_random_ones() -> None:
    model, pairs = planted(2)
    stream = np.random.default_rng(9)
    users = 40
    truth = model.mean + stream.normal(size=(users, J)) @ model.factor.T
    v = (pairs[:, 0].astype(np.float64) - pairs[:, 1]) @ model.psi
    liked = stream.random((users, PAIRS)) < expit(truth @ v.T)
    error, known = {}, {}
    for way in ("active", "random"):
        asked: list[list[int]] = [[] for _ in range(users)]
        for _ in range(8):
            first = [[bool(liked[u, p]) for p in own] for u, own in enumerate(asked)]
            answered = answers(pairs, asked, first)
            for u in range(users):
                left = np.setdiff1d(np.arange(PAIRS), asked[u])
                own = answered.of_users(np.array([u]))
                pick = (
                    int(next_question(model, own, pairs[left], seed=u)[0])
                    if way == "active"
                    else int(stream.integers(len(left)))
                )
                asked[u].append(int(left[pick]))
        first = [[bool(liked[u, p]) for p in own] for u, own in enumerate(asked)]
        answered = answers(pairs, asked, first)
        found = model.adapt(answered)["factors"]
        error[way] = float((((found - truth) @ v.T) ** 2).mean())
        known[way] = float(np.linalg.slogdet(precision(model, answered))[1].mean())
    assert known["active"] > known["random"]
    assert error["active"] < error["random"]
