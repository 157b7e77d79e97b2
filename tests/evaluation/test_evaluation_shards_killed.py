"""Shards of models: three processes at once, one of them killed, and the float32 sample."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import shards
from test_evaluation_resume import EIGHT, shard

from palate.comparison import evaluate
from palate.execution import Shard
from palate.execution import plan as planning
from palate.records import Settings
from palate.session import Session


def test_killed_shards_give_the_bytes_of_one_process(tiny, capsys, monkeypatch):
    model = tiny.model()
    words = ["--scorer", f"lift:{model}", "--scorer", f"judge:{model}?verdict=logits"]
    monkeypatch.setattr(sys, "argv", ["shards.py", *words])
    assert shards.main() == 0
    told = capsys.readouterr().out
    assert "shard 1/3: killed with" in told
    assert "shards: 0 requests computed here" in told
    assert told.endswith("6 of 6 files have the same bytes\n")


def test_a_shard_that_ends_before_it_is_killed_is_no_proof(tmp_path):
    process = shards.begun(["-b", "nothing.jsonl", "-s", "longest"], tmp_path)
    process.wait()
    with pytest.raises(SystemExit, match="before it could be killed"):
        shards.killed(process, tmp_path)
    process.communicate()


def test_the_float32_sample_is_shared_out_too(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "GROUPS_PER_BATCH", 4)  # so that 16 rows are several batches
    spec, half = f"lift:{tiny.model()}", Settings(dtype="bfloat16")
    whole = evaluate(EIGHT, spec, "profile:1", root=tmp_path / "whole", settings=half)
    root = tmp_path / "parts"
    for k in (1, 2):
        shard(root, spec, k, 2, pairs=EIGHT, context="profile:1", settings=half)
        journals = list(Shard(k, 2).folder(root).rglob("float32.journal.jsonl"))
        assert [path.stat().st_size > 0 for path in journals] == [True]
    session = Session()
    last = evaluate(EIGHT, spec, "profile:1", root=root, settings=half, session=session)
    assert session.loaded == 0
    assert whole.folder is not None and last.folder is not None
    for name in ("summary.json", "rows.jsonl", "again.jsonl"):
        assert (last.folder / name).read_bytes() == (whole.folder / name).read_bytes()
