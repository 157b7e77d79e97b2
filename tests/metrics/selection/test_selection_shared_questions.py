"""Users who share questions, and so samples: what a curve's intervals and tests make of it."""

import numpy as np
import pytest
from scipy import stats

from palate.metrics.selection import best_of, best_of_curve, over_optimisation

SAMPLES = 8


def world(
    rng: np.random.Generator, cells: list[tuple[int, int]], own: float, skill: float = 0.8
) -> tuple[np.ndarray, np.ndarray, list[int], list[int]]:
    """Levels of users and questions; samples belong to the question, tastes to the row."""
    users, questions = [u for u, _ in cells], [q for _, q in cells]
    level = rng.normal(0, 0.6, 1 + max(questions))[questions, None]
    level = level + rng.normal(0, 0.4, 1 + max(users))[users, None]
    drawn = rng.normal(size=(1 + max(questions), SAMPLES))
    z = drawn[questions] + rng.normal(0, own, (len(cells), SAMPLES))
    noise = rng.normal(size=drawn.shape)[questions]
    scores = skill * drawn[questions] + np.sqrt(1 - skill**2) * noise
    return scores, level + z, users, questions


def everyone(users: int, questions: int) -> list[tuple[int, int]]:
    return [(u, q) for u in range(users) for q in range(questions)]


def alone(users: int) -> list[tuple[int, int]]:
    return [(q // 3, q) for q in range(3 * users)]


def test_questions_of_one_user_each_change_nothing() -> None:
    rng = np.random.default_rng(3)
    scores, gold, users, questions = world(rng, alone(12), 0.5)
    plain = best_of_curve(scores, gold, users, [1, 4, 8], bounds=None)
    assert best_of_curve(scores, gold, users, [1, 4, 8], questions=questions, bounds=None) == plain
    assert over_optimisation(
        scores, gold, users, [2, 3, 4], questions=questions
    ) == over_optimisation(scores, gold, users, [2, 3, 4])


def test_shared_questions_widen_all_that_rests_on_them() -> None:
    rng = np.random.default_rng(4)
    scores, gold, users, questions = world(rng, everyone(24, 6), 0.3)
    plain = best_of_curve(scores, gold, users, [4], bounds=None).points[0]
    wider = best_of_curve(scores, gold, users, [4], questions=questions, bounds=None).points[0]
    for name in ("best", "oracle", "gain", "oracle_share"):
        one, other = getattr(plain, name), getattr(wider, name)
        assert one.value == other.value
        assert other.se > 1.5 * one.se
        assert other.df == pytest.approx(5 if name != "oracle_share" else other.df)
        assert other.df <= 5 + 1e-9
    # The gain's p is that of its interval: by user the sums share the questions.
    gain = wider.gain
    assert gain.p == pytest.approx(2 * stats.t(gain.df).sf(abs(gain.value / gain.se)))
    assert plain.gain.p is not None
    assert gain.p > plain.gain.p
    fits = [
        over_optimisation(scores, gold, users, [2, 3, 4], questions=q) for q in (None, questions)
    ]
    assert fits[1].alpha.se > fits[0].alpha.se


def test_oracle_share_by_leaving_questions_out_by_hand() -> None:
    rng = np.random.default_rng(5)
    scores, gold, users, questions = world(rng, everyone(6, 8), 0.5)
    values = best_of(scores, gold, [1, 4])
    gained, room = values[:, 1] - values[:, 0], best_of(gold, gold, [4])[:, 0] - values[:, 0]
    share = gained.sum() / room.sum()

    def variance(labels: list) -> float:
        names = sorted(set(labels))
        out = [np.array([one == name for one in labels]) for name in names]
        moved = np.array([gained[~m].sum() / room[~m].sum() for m in out]) - share
        return (len(names) - 1) / len(names) * float((moved**2).sum())

    cells = list(zip(users, questions, strict=True))
    both = variance(users) + variance(questions) - variance(cells)
    found = best_of_curve(scores, gold, users, [4], questions=questions, bounds=None)
    assert found.points[0].oracle_share.se == pytest.approx(np.sqrt(max(both, variance(users))))
