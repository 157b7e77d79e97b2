import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from palate.metrics import Clusters
from palate.metrics.ranks import Reliability, reliability

VALUES = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@st.composite
def tables(draw):
    """Rows of three to five scorers, with a user and a question each."""
    n, rows = draw(st.integers(3, 5)), draw(st.integers(4, 14))
    values = draw(st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=rows, max_size=rows))
    users = draw(st.lists(st.integers(0, 5), min_size=rows, max_size=rows))
    questions = draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows))
    return values, users, questions


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def left_out(values: list[float], groups: list) -> float:
    """((G - 1)/G) Σ (mean without the group - mean)², each mean taken afresh."""
    names = set(groups)
    moved = 0.0
    for name in names:
        rest = [x for x, group in zip(values, groups, strict=True) if group != name]
        moved += (mean(rest) - mean(values)) ** 2
    return (len(names) - 1) / len(names) * moved


def effective(groups: list) -> float:
    counts = [groups.count(name) for name in set(groups)]
    return sum(counts) ** 2 / sum(count**2 for count in counts)


def ends(error: float, n: int, df: float) -> list[float]:
    law = stats.f(n - 1, df)
    unclipped = [1 - error, 1 - error * law.ppf(0.975), 1 - error * law.ppf(0.025)]
    return [min(1.0, max(0.0, end)) for end in unclipped]


def by_hand(values: list[list[float]], users: list, questions: list) -> list[float] | None:
    cells = list(zip(users, questions, strict=True))
    columns = list(zip(*values, strict=True))
    noise = spread = 0.0
    if min(effective(users), effective(questions)) <= 2:
        return None
    for a, b in combinations(columns, 2):
        apart = [x - y for x, y in zip(a, b, strict=True)]
        sides = [left_out(apart, groups) for groups in (users, questions, cells)]
        noise += max(0.0, sides[0] + sides[1] - sides[2])
        spread += mean(apart) ** 2
    if spread < 1e-20:
        return None
    return ends(noise / spread, len(columns), min(effective(users), effective(questions)) - 1)


def listed(found: Reliability | None) -> list[float] | None:
    return None if found is None else [found.value, found.low, found.high]


def same(found: Reliability | None, other: Reliability | None) -> None:
    assert (found is None) == (other is None)
    if found is not None:
        assert listed(found) == pytest.approx(listed(other), abs=1e-7)


@settings(max_examples=60)
@given(tables())
@example(([[0, 1, 0.5]] * 6, [0, 0, 1, 1, 2, 2], [0, 1, 2, 0, 1, 2]))
def test_it_is_that_of_all_pairs_with_each_cluster_left_out(table) -> None:
    values, users, questions = table
    # By question too only where two users share one; else a question counts with its user.
    shared = len(set(zip(users, questions, strict=True))) > len(set(questions))
    found = reliability(values, Clusters.of(users, questions=questions))
    expected = by_hand(values, users, questions if shared else users)
    assert (found is None) == (expected is None)
    if found is not None:
        assert listed(found) == pytest.approx(expected, abs=1e-9)


def test_couples_by_hand() -> None:
    # A ring of seven users on five questions, some of which two couples share.
    rng = np.random.default_rng(1)
    a, b = (
        list(range(7)) * 2,
        [(k + 1 + k // 7) % 7 for k in range(7)] + [(k + 3) % 7 for k in range(7)],
    )
    questions = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3]
    x = rng.choice([0, 0.5, 1], (14, 3)) + np.array([0, 0.2, 0.5])

    def moved(apart: np.ndarray, gone: np.ndarray) -> float:
        return float((apart[~gone].mean() - apart.mean()) ** 2)

    def dyadic(apart: np.ndarray, within: list) -> float:
        """Couples of a user, less couples of a pair of users; both within the groups given."""
        total = 0.0
        for group in set(within):
            here = np.array([g == group for g in within])
            pairs = [frozenset(pair) for pair in zip(a, b, strict=True)]
            for user in range(7):
                gone = here & np.array([user in pair for pair in pairs])
                total += moved(apart, gone) if gone.any() else 0.0
            for pair in set(pairs):
                gone = here & np.array([other == pair for other in pairs])
                total -= moved(apart, gone) if gone.any() else 0.0
        return total

    noise = spread = 0.0
    for i, j in combinations(range(3), 2):
        apart = x[:, i] - x[:, j]
        residuals = apart - apart.mean()
        floor = sum(
            sum(e for e, p, q in zip(residuals, a, b, strict=True) if {p, q} == pair) ** 2
            for pair in {frozenset(pair) for pair in zip(a, b, strict=True)}
        ) / 14**2  # fmt: skip
        by_user = max(dyadic(apart, [0] * 14), floor)
        by_cell = dyadic(apart, questions)
        noise += max(0.0, by_user + left_out(apart.tolist(), questions) - by_cell)
        spread += apart.mean() ** 2
    found = reliability(x, Clusters.of(a, b, questions=questions))
    assert found is not None
    df = min(7.0, effective(questions)) - 1
    assert found.df == pytest.approx(df)
    assert listed(found) == pytest.approx(ends(noise / spread, 3, df))


@given(tables(), st.floats(0.1, 10), st.floats(-5, 5), st.randoms(use_true_random=False))
def test_units_listing_and_what_moves_all_alike_do_not_matter(table, scale, shift, random) -> None:
    values, users, questions = np.array(table[0]), table[1], table[2]
    found = reliability(values, Clusters.of(users, questions=questions))
    rows = Clusters.of(users, questions=questions)
    same(reliability(scale * values + shift, rows), found)
    hard = np.array([random.uniform(-1, 1) for _ in users])[:, None]
    same(reliability(values + hard, rows), found)
    order, names = random.sample(range(len(users)), len(users)), {u: f"u{u}" for u in users}
    turned = Clusters.of([names[users[k]] for k in order], questions=[questions[k] for k in order])
    scorers = random.sample(range(values.shape[1]), values.shape[1])
    same(reliability(values[order][:, scorers], turned), found)


def test_no_noise_and_no_difference() -> None:
    rows = Clusters.of([0, 1, 2, 3] * 2, questions=[0, 0, 1, 1, 2, 2, 3, 3])
    exact = reliability(np.tile([0.1, 0.4, 0.6], (8, 1)), rows)
    assert listed(exact) == pytest.approx([1, 1, 1])
    rng = np.random.default_rng(0)
    alike = rng.random((8, 1)) @ np.ones((1, 3))
    assert reliability(alike, rows) is None
    # Three permutations of one column: equal means, nothing to explain.
    assert reliability(np.stack([np.roll([1, 0] * 4, k) for k in (0, 1, 2)], axis=1), rows) is None


def test_where_it_is_not_defined() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((12, 4)) + np.arange(4)
    many = Clusters.of(range(12))
    assert reliability(x, many) is not None
    assert reliability(x[:, :2], many) is None, "two scorers"
    assert reliability(x, Clusters.of([0, 1] * 6)) is None, "two users"
    two_questions = Clusters.of(list(range(6)) * 2, questions=[0] * 6 + [1] * 6)
    assert reliability(x, two_questions) is None, "two questions that users share"
    assert reliability(x, Clusters.of([0] * 12)) is None
    star = Clusters.of([0] * 12, range(1, 13))
    assert reliability(x, star) is None, "one user is in every couple"
    assert reliability(x[:0], Clusters.of([])) is None
    with pytest.raises(ValueError, match="finite values of shape"):
        reliability(np.where(x > 3, math.nan, x), many)
    with pytest.raises(ValueError, match="finite values of shape"):
        reliability(x[:, 0], many)
    with pytest.raises(ValueError, match="values 12, users 11"):
        reliability(x, Clusters.of(range(11)))
