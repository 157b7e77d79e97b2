"""Strengths are chosen on questions nobody answered yet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.embeddings import build_features
from palate.learning.amortised import draw_episode, split_choices
from palate.learning.choices import Choices, folds
from palate.learning.heads import choose_ridge
from palate.learning.personal import gather
from palate.records import Choice, Settings
from palate.session import default_session


def choices_on(question: list[int]) -> Choices:
    n = len(question)
    table = np.zeros((2 * n, 2), np.float32)
    chosen, rejected = np.arange(n), n + np.arange(n)
    return Choices(table, np.zeros(n, np.int64), chosen, rejected, users=1,
                   question=np.array(question * 2))  # fmt: skip


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(2, 5), st.integers(0, 99))
def test_a_question_is_in_one_fold_and_no_fold_outgrows_another_by_more_than_a_question(
    question, n, seed
):
    found = folds(choices_on(question), n, np.random.default_rng(seed))
    assert found.shape == (len(question),)
    assert ((found >= 0) & (found < n)).all()
    counts = np.bincount(question)
    large = counts.max() > max(1, 2 * len(question) / n)
    if np.count_nonzero(counts) < n or large:  # dealt one by one
        assert np.ptp(np.bincount(found, minlength=n)) <= 1
        return
    for one in set(question):
        assert len(set(found[np.array(question) == one].tolist())) == 1
    sizes = np.bincount(found, minlength=n)
    assert np.ptp(sizes) <= counts.max()


def test_choices_without_questions_are_dealt_evenly():
    made = choices_on([0] * 12)
    alone = Choices(made.features, made.user, made.chosen, made.rejected, users=1)
    assert np.bincount(folds(alone, 5, np.random.default_rng(0))).tolist() == [3, 3, 2, 2, 2]


def test_gathered_choices_know_their_questions():
    history = [
        [Choice(question=q, chosen=f"yes {q}", rejected="no") for q in ("tea?", "milk?", "tea?")],
        [Choice(question="milk?", chosen="no", rejected="yes milk?")],
    ]
    found, _ = gather(build_features(["style"], default_session(), Settings()), history)
    asked = found.question_of_choice.tolist()
    assert asked[0] == asked[2]
    assert asked[1] == asked[3] != asked[0]


def remembered(seed: int = 0) -> Choices:
    """8 questions of 12 responses; what people like is one number, and luck of each question."""
    stream = np.random.default_rng(seed)
    questions, each, width, users = 8, 12, 120, 30
    table = stream.normal(size=(questions * each, width)).astype(np.float32)
    luck = stream.normal(size=questions * each) * 2
    good = 1.0 * table[:, 0] + luck
    rows = []
    for user in range(users):
        for q in range(questions):
            for _ in range(6):
                a, b = q * each + stream.choice(each, 2, replace=False)
                first = stream.random() < 1 / (1 + np.exp(good[b] - good[a]))
                rows.append((user, a, b) if first else (user, b, a))
    user, chosen, rejected = np.array(rows).T
    question = np.repeat(np.arange(questions), each)
    return Choices(table, user, chosen, rejected, users=users, question=question)


def test_what_only_remembers_responses_is_not_preferred():
    made = remembered()
    by_choice = Choices(made.features, made.user, made.chosen, made.rejected, users=made.users)
    assert choose_ridge(made, 0) >= 10 * choose_ridge(by_choice, 0)


def test_an_episode_asks_about_other_questions_than_it_shows():
    stream = np.random.default_rng(0)
    asked = np.repeat(np.arange(7), 5)
    rows = stream.permutation(35)
    for _ in range(200):
        one = draw_episode(rows, asked, 256, stream)
        assert len(one.targets)
        assert not set(asked[one.context]) & set(asked[one.targets])
        assert len(set(one.context.tolist())) == len(one.context)
    # Where all choices are on one question there is no other to ask about.
    one = draw_episode(np.arange(5), asked[:5], 256, stream)
    assert set(one.context.tolist()) | set(one.targets.tolist()) == set(range(5))


@pytest.mark.parametrize("users", [4, 30])
def test_stopping_is_told_by_questions_and_users_that_training_never_saw(users):
    question = np.repeat(np.arange(10), 6)
    n = len(question)
    stream = np.random.default_rng(0)
    user = np.repeat(np.arange(users), 20)
    chosen = stream.integers(n, size=len(user))
    made = Choices(np.zeros((n, 2), np.float32), user, chosen, (chosen + 1) % n, users=users,
                   question=question)  # fmt: skip
    kept, held = split_choices(made, {"most": 256, "batch": 8}, stream)
    trained = np.concatenate(kept)
    targets = np.concatenate([one.targets for batch in held for one in batch])
    assert not set(made.question_of_choice[trained]) & set(made.question_of_choice[targets])
    if users == 30:
        assert not set(made.user[trained]) & set(made.user[targets])
