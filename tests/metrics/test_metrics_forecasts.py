"""Forecasts: picks by all subsets, laws of the two models, planted worlds."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.errors import UsageError
from palate.metrics import Clusters, forecast_shares

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import cover_of_forecasts as planted

Array = np.ndarray[Any, Any]
ROWS = Clusters.of(range(12))
NORMAL_OF = {2: 0.5641895835, 4: 1.0293753730}


def margins(seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0.4, 1.0, 12)


def scores(seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(size=(12, 6))


def picked(values: Array, k: int) -> Array:
    """How often each sample is the best of k, over all subsets; ties share."""
    taken = np.zeros(values.size)
    subsets = [*combinations(np.flatnonzero(~np.isnan(values)).tolist(), k)]
    for subset in subsets:
        best = [j for j in subset if values[j] == max(values[list(subset)])]
        taken[best] += 1 / len(best) / len(subsets)
    return taken


def standardised(values: Array) -> Array:
    """By the standard deviation, made unbiased: 0.9515 of it for six normals."""
    known = values[~np.isnan(values)]
    unbiased = {6: 0.951532861, 5: 0.939985602}[known.size]
    return np.nan_to_num((values - known.mean()) / known.std(ddof=1) * unbiased)


@pytest.mark.parametrize("k", [2, 4])
def test_what_is_attainable_is_that_of_all_subsets(k: int) -> None:
    own, other = scores(), scores(2)
    own[0, :2], own[3, 1] = 0.5, np.nan  # a tie, and a sample without a score
    _, (of_rows,) = forecast_shares(margins(), ROWS, own, [k])
    expected = [(picked(s, k) - picked(s, 1)) @ standardised(s) for s in own]
    assert of_rows.attainable == pytest.approx(np.mean(expected) / NORMAL_OF[k], abs=1e-6)
    couples = Clusters.of([0, 1, 2, 3] * 3, [4, 5, 6, 7, 5, 6, 7, 4, 6, 7, 4, 5])
    _, (of_couples,) = forecast_shares(margins(), couples, own, [k], other)
    other = np.where(np.isnan(own), np.nan, other)
    both = zip(own, other, strict=True)
    expected = [(picked(a, k) - picked(b, k)) @ standardised(a - b) / 2 for a, b in both]
    assert of_couples.attainable == pytest.approx(np.mean(expected) / NORMAL_OF[k], abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 999), st.floats(0.1, 10), st.floats(0.1, 10))
def test_by_ranks_no_scale_counts_and_a_scorer_turned_round_turns_all(
    seed: int, of_run: float, of_both: float
) -> None:
    m, s = margins(seed), scores(seed)
    skill, (share,) = forecast_shares(m, ROWS, s, [4])
    assert forecast_shares(of_run * m, ROWS, s, [4])[0].by_ranks == pytest.approx(skill.by_ranks)
    assert forecast_shares(of_both * m, ROWS, of_both * s, [4])[0].by_spread == pytest.approx(
        skill.by_spread
    )
    turned, (away,) = forecast_shares(-m, ROWS, s, [4])
    assert (turned.value, away.value) == pytest.approx((-skill.value, -share.value))
    if skill.by_ranks:
        assert (away.low, away.high) == pytest.approx((-share.high, -share.low))
    assert -1 <= share.low <= share.value <= share.high <= 1


def test_margins_far_beyond_the_spread_of_answers_leave_the_interval_open_down_to_nothing() -> None:
    m = np.linspace(8.0, 12.0, 12)
    wide, (share,) = forecast_shares(m, ROWS, scores(), [2])
    assert (wide.by_ranks, wide.by_spread, wide.low, wide.high) == (1.0, 0.0, 0.0, 1.0)
    assert share.low < 0.1
    assert share.high > 0.4
    near, _ = forecast_shares(m, ROWS, 100 * scores(), [2])
    assert near.by_spread > 0.99


def test_who_is_blind_gains_nothing_and_nothing_is_known_of_too_few_samples() -> None:
    same = scores()
    couples = Clusters.of(range(12), range(12, 24))
    skill, (share,) = forecast_shares(np.zeros(12), couples, same, [2], same)
    assert (skill.value, share.value, share.low, share.high) == (0.0, 0.0, 0.0, 0.0)
    lone = np.full((12, 6), np.nan)
    lone[:, 0] = 1.0
    _, (none,) = forecast_shares(margins(), ROWS, lone, [2])
    assert (none.value, none.low) == (None, None)
    with pytest.raises(UsageError, match="best of 7 needs 7 samples and there are 6"):
        forecast_shares(margins(), ROWS, same, [7])


def test_rows_of_a_question_share_what_is_left_of_quality() -> None:
    s, m = np.tile(scores()[:1], (12, 1)), np.array([1.0, -1.1, 0.9, -0.8] * 3)
    widths = []
    for questions in range(12), [k // 3 for k in range(12)]:
        clusters = Clusters.of(range(12), questions=questions)
        skill, (share,) = forecast_shares(m, clusters, s, [2])
        ends = share.attainable * (skill.high - skill.value)
        widths.append(np.sqrt((share.high - share.value) ** 2 - ends**2))
    assert widths[1] == pytest.approx(np.sqrt(3) * widths[0], rel=1e-6)


@pytest.mark.parametrize("name", ["usual", "pairs chosen apart", "mostly blind"])
def test_planted_worlds_are_covered(name: str) -> None:
    (world,) = (it for it in planted.WORLDS if it.name == name)
    held = 0
    for seed in range(24):
        (_, came, _, _), (_, _, low, high), *_ = planted.one(replace(world), seed)
        held += low <= came <= high
    assert held >= 18, "of 24; 0.88 of them and more where 200 are drawn"


def test_a_model_alone_does_not_cover_where_pairs_were_chosen_apart() -> None:
    (world,) = (it for it in planted.WORLDS if it.name == "far apart")
    told = [{name: of for name, *of in planted.one(world, seed)} for seed in range(24)]
    for name, most in ("ranks", 12), ("gaussian", 12):
        held = sum(it[name][1] <= it["came"][0] <= it[name][2] for it in told)
        assert held <= most
