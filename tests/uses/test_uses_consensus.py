"""The majority of the others, by hand and by brute force."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from palate.benchmarks import Dataset
from palate.records import PreferencePair
from palate.uses.learning_curve import majority_of_others


def vote(k: int, user: str, first: bool, question: str = "tea?") -> PreferencePair:
    chosen, rejected = ("yes", "no") if first else ("no", "yes")
    return PreferencePair(id=str(k), user_id=user, text=question, chosen=chosen,
                          rejected=rejected)  # fmt: skip


def test_a_vote_of_one_s_own_does_not_count_and_nobody_else_is_no_majority():
    pairs = Dataset("votes", (
        vote(0, "ann", True), vote(1, "bob", True), vote(2, "cy", True), vote(3, "dee", False),
        vote(4, "ann", True, "milk?"), vote(5, "ann", False, "milk?"),
    ))  # fmt: skip
    found = majority_of_others(pairs).tolist()
    assert found[:4] == [1.0, 1.0, 1.0, 0.0]
    assert all(math.isnan(one) for one in found[4:])


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.sampled_from("pq")), max_size=25))
def test_it_is_what_counting_gives(votes):
    rows = tuple(vote(k, f"u{u}", first, q) for k, (u, first, q) in enumerate(votes))
    for (user, first, question), credit in zip(
        votes, majority_of_others(Dataset("votes", rows)).tolist(), strict=True
    ):
        others = [f == first for u, f, q in votes if u != user and q == question]
        if not others:
            assert math.isnan(credit)
            continue
        alike = sum(others)
        unlike = len(others) - alike
        assert credit == (1.0 if alike > unlike else 0.5 if alike == unlike else 0.0)


def test_a_vote_on_the_same_texts_in_another_form_is_another_users_vote() -> None:
    rows = (
        PreferencePair(id="1", user_id="ann", text="Caf\u00e9?", chosen="A.\nB.", rejected="C."),
        PreferencePair(
            id="2", user_id="bob", text="Cafe\u0301? ", chosen="A.\r\nB.", rejected="C."
        ),
    )
    assert majority_of_others(Dataset("votes", rows)).tolist() == [1.0, 1.0]
