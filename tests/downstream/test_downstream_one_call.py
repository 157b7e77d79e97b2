"""best_of_n from a name, a spec and a number."""

from __future__ import annotations

import json

import numpy as np
import pytest

import palate
from palate.benchmarks import load_benchmark
from palate.downstream import best_of_n, build_policy, build_quality, draw_samples
from palate.errors import UsageError
from palate.evaluation import Options
from palate.records import Settings


def test_one_call_draws_builds_and_picks_as_the_parts_do(tmp_path, tiny, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "drinks.jsonl"
    rows = [
        {"id": k, "user_id": f"u{k % 3}", "question": f"A drink at {k}?", "reference": f"Tea, {k}."}
        for k in range(6)
    ]  # fmt: skip
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec, how = f"{tiny.model()}?max_tokens=8", Options(Settings(device="cpu", dtype="float32"))
    told = []

    def start(label):
        told.append(label)
        return lambda done, total: None

    found = palate.best_of_n(
        file, spec, ["longest", "shortest"], qualities=["overlap:chrf"], n=4,
        root=tmp_path / "runs", options=how, start=start,
    )  # fmt: skip
    pairs = load_benchmark(str(file))
    samples = draw_samples(build_policy(spec, how.settings), pairs, 4)
    parts = best_of_n(
        pairs, samples, ["longest", "shortest"], qualities=[build_quality("overlap:chrf")],
        root=None, options=how,
    )  # fmt: skip
    assert found.summary == parts.summary
    assert found.summary.samples.content_hash == samples.content
    assert found.summary.ks == (1, 2, 4)
    assert found.rows == parts.rows
    assert told[0] == f"sampling {spec}"
    (written,) = (tmp_path / "runs" / "drinks-samples").glob("*.jsonl")
    read = best_of_n(pairs, written, ["longest"], qualities=["overlap:chrf"], n=2, root=None)
    fewer = best_of_n(pairs, samples, ["longest"], qualities=["overlap:chrf"], n=2, root=None)
    assert np.array_equal(read.expected, fewer.expected, equal_nan=True)
    with pytest.raises(UsageError, match="best of 8: there are 4 samples"):
        palate.best_of_n(file, spec, ["longest"], qualities=["overlap:chrf"], n=4, ks=[8])
    with pytest.raises(UsageError, match="best of 32: there are 16 samples"):
        palate.best_of_n(file, spec, ["longest"], qualities=["overlap:chrf"], ks=[32])
