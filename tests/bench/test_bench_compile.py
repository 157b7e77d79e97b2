"""The bench of compiled layers reads the same with and without them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from bench_compile import TURNS, bench_compile
from bench_work import BenchCase

from palate.errors import UsageError
from palate.records import Settings

CASES = [BenchCase("pairs", 60, 2, 3, response=20)]


@pytest.mark.full
def test_both_ways_are_measured_and_differ_by_rounding(tiny, cache):
    done = []
    (bench,) = bench_compile(
        tiny.model(),
        settings=Settings(dtype="bfloat16"),
        cases=CASES,
        progress=lambda *of: done.append(of),
    )
    assert (bench.case, bench.dtype) == ("pairs", "bfloat16")
    assert min(bench.plain_s, bench.compiled_s, bench.loading_s) > 0
    assert 0 < bench.difference < 0.1
    assert done == [(n + 1, TURNS + 1) for n in range(TURNS + 1)]


def test_layers_that_are_not_compiled_are_not_measured(tiny):
    settings = Settings(attention="sdpa")
    with pytest.raises(UsageError, match="its layers are not compiled"):
        bench_compile(tiny.model(), settings=settings, cases=CASES, progress=lambda *of: None)
