"""best_of_n from a name, a spec and a number."""

from __future__ import annotations

import json

import numpy as np
import pytest

import palate
from palate.answers import build_policy, draw_samples
from palate.benchmarks import load_benchmark
from palate.errors import UsageError
from palate.records import Settings
from palate.session import default_session
from palate.uses.best_of_n import best_of_n


def test_one_call_draws_builds_and_picks_as_the_parts_do(tmp_path, tiny, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "drinks.jsonl"
    rows = [
        {"id": k, "user_id": f"u{k % 3}", "question": f"A drink at {k}?", "reference": f"Tea, {k}."}
        for k in range(6)
    ]  # fmt: skip
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec, settings = f"{tiny.model()}?max_tokens=8", Settings(device="cpu", dtype="float32")
    told = []

    def start(label):
        told.append(label)
        return lambda done, total: None

    found = palate.best_of_n(
        file, spec, ["longest", "shortest"], qualities=["overlap:chrf"], n=4,
        root=tmp_path / "runs", settings=settings, start=start,
    )  # fmt: skip
    pairs = load_benchmark(str(file))
    samples = draw_samples(
        build_policy(spec, default_session(), settings), pairs, 4, default_session().store
    )
    parts = best_of_n(
        pairs, samples, ["longest", "shortest"], qualities=["overlap:chrf"],
        root=None, settings=settings,
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
