"""The error that --target rating averages is one less the alignment of every rating."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import palate
from palate.benchmarks import Dataset
from palate.comparison import evaluate
from palate.comparison.ratings import evaluate_ratings
from palate.metrics import mean_error
from palate.records import Gold, PreferencePair


def test_it_is_what_target_rating_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = tuple(
        PreferencePair(
            id=f"{k}", user_id=f"u{k % 4}", text=f"Tea {k}?", chosen="y" * (k * 7 % 11 + 2),
            rejected="n" * (k % 3 + 1),
            gold=Gold(ratings=(2 + k % 4, 1 + k % 2), rating_scale=(1, 5)),
        )
        for k in range(12)
    )  # fmt: skip
    seen: list[tuple[Any, Any, Any]] = []

    def watched(predicted: Any, ratings: Any, clusters: Any) -> Any:
        seen.append((predicted, ratings, clusters.user))
        return mean_error(predicted, ratings, clusters)

    monkeypatch.setattr("palate.metrics.mean_error", watched)
    report = evaluate_ratings(evaluate(Dataset("tea", pairs), "longest", "none", root=None))
    predicted, ratings, users = seen[0]
    assert len(ratings) == 24
    shares = palate.alignment(predicted, ratings)
    mean = np.mean([shares[users == user].mean() for user in np.unique(users)])
    assert report.rating_error.value == pytest.approx(1 - mean, abs=1e-12)
