"""Retest agreement, the ceiling that it leaves, and drift."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from study_drift import answer, answers_of, drifts, repeats

from palate.metrics import Clusters, clustered_mean, group_gap
from palate.study.agreement import agreement, retest_report
from study.planted_answers import written

SWAP = {"first": "second", "second": "first"}


def test_the_bounds_hold_of_users_whose_chances_are_known():
    stream = np.random.default_rng(0)
    p = stream.beta(8, 2, (300, 100))
    first, second = (stream.random(p.shape) < p for _ in range(2))
    # By hand, as 60,000 rows of an export would take a minute: agreement and the true ceiling.
    a, ceiling = float((first == second).mean()), float(np.maximum(p, 1 - p).mean())
    assert (a, ceiling) == pytest.approx((0.707, 0.802), abs=0.01)
    report = retest_report(answers_of(first[:40], second[:40], np.zeros((40, 100))))
    low, high = report.ceiling
    assert (low, high) == pytest.approx((0.707, 0.822), abs=0.02)
    assert low < ceiling < high


@given(st.lists(st.tuples(
    st.integers(0, 3), st.integers(0, 5), st.sampled_from(["first", "second", "same", "skip"]),
    st.sampled_from(["first", "second", "same", "skip"]), st.sampled_from([1.0, 14.0, 14.5, 30.0]),
), min_size=1, max_size=20, unique_by=lambda it: it[:2]))  # fmt: skip
def test_it_is_the_share_of_decided_repeats_and_a_gap_of_changes(drawn):
    rows = []
    for u, q, before, after, day in drawn:
        rows += [answer(f"r{u}", q, before), answer(f"r{u}", q, after, day=day, again=True)]
    report = retest_report(rows)
    decided = [it for it in drawn if it[2] in SWAP and it[3] in SWAP]
    assert report.n_undecided == len(drawn) - len(decided)
    assert report.agreement.n == len(decided)
    assert report.n_late == sum(it[4] > 14 for it in decided)
    clusters = Clusters.of([it[0] for it in decided], questions=[it[1] for it in decided])
    alike = [float(it[2] == it[3]) for it in decided]
    mean = clustered_mean(alike, clusters)
    assert (report.agreement.value, report.agreement.low) == (mean.value, mean.low)
    gap = group_gap([1 - x for x in alike], [it[4] > 14 for it in decided], clusters)
    assert (report.drift.value, report.drift.low, report.p) == (gap.value, gap.low, gap.p)
    if report.ceiling is not None:
        low, high = report.ceiling
        assert 0.5 <= low <= high <= 1 and low >= mean.value
    exchanged = [
        row.model_copy(update={"choice": SWAP.get(row.choice, row.choice)}) for row in rows
    ]
    assert retest_report(exchanged) == report, "which answer is the first does not matter"


def test_without_repeats_there_is_none():
    assert retest_report([]) is None
    assert retest_report([answer("r1", 1, "first")]) is None
    assert retest_report([answer("r1", 1, "first", again=True)]) is None, "nothing before it"
    undecided = [answer("r1", 1, "same"), answer("r1", 1, "first", again=True)]
    report = retest_report(undecided)
    assert (report.agreement.value, report.ceiling, report.drifted) == (None, None, "not shown")


def test_less_than_one_half_is_luck():
    rows = [answer("r1", 1, "first"), answer("r1", 1, "second", again=True)]
    report = retest_report(rows)
    assert (report.agreement.value, report.ceiling) == (0.0, (0.5, 0.5))


@pytest.mark.parametrize(("turning", "finding"), [(20, "found"), (0, "not shown")])
def test_agreement_finds_drift_of_half_of_the_users_and_none_of_nobody(tmp_path, turning, finding):
    file = written(tmp_path / "answers.jsonl", repeats(0, turning))
    report = agreement(file, root=None).summary.retest
    assert (report.drifted, report.agreement.n, report.n_late) == (finding, 1600, 800)


def test_drift_is_seen_where_half_of_the_users_turn_and_not_where_nobody_does():
    assert sum(drifts(seed, 20) for seed in range(4)) >= 3
    assert sum(drifts(seed, 0) for seed in range(100, 104)) <= 1
