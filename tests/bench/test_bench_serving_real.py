"""The bench of the server measures a real one, with a tiny model and with none."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from bench_serving import SERVE_CASES, bench_serving

from palate.records import Settings
from palate.session import Session


def test_a_real_server_is_measured(tiny):
    small = [case._replace(clients=3) for case in SERVE_CASES if case.clients == 64]
    assert [case.model for case in small] == [True, False]
    ticks = []
    with Session() as session:
        classifier, nothing = bench_serving(
            tiny.model(), session=session, settings=Settings(dtype="float32"), cases=small,
            seconds=1.0, progress=lambda done, total: ticks.append((done, total)),
        )  # fmt: skip
    assert ticks == [(1, 2), (2, 2)]
    for bench in (classifier, nothing):
        assert (bench.errors, bench.lost, bench.foreign) == (0, 0, 0)
        assert 1 <= bench.batch <= bench.clients == 3
        assert 0 < bench.busy < 1 and bench.told_apart > 0.9
        assert 0 < bench.p50_s <= bench.p95_s <= bench.p99_s
        assert bench.answers == round(bench.rate * bench.seconds) > 3
    assert (classifier.dtype, nothing.dtype) == ("float32", None)
    assert classifier.ratio == pytest.approx(classifier.rate / classifier.in_process_rate)
    assert (nothing.ratio, nothing.in_process_rate) == (None, None)
    assert list(asdict(nothing))[:5] == ["case", "clients", "dtype", "answers", "seconds"]
