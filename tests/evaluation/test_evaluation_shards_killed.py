"""What `tools/shards.py` prints: three processes at once, one of them killed, on a random model."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import shards


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
