"""Shards of models: three processes at once, one of them killed, and the float32 sample."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import shards
from test_evaluation_shards import EIGHT, shard

from palate.evaluation import evaluate
from palate.execution import Shard
from palate.execution import plan as planning
from palate.records import Settings
from palate.session import Session


def test_killed_shards_give_the_bytes_of_one_process(tiny):
    # 33 couples are three batches of prompts: each of three shards has one.
    words = ["--limit", "33", "--scorer", f"lift:{tiny.model()}"]
    done = subprocess.run(
        [sys.executable, shards.__file__, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "shard 1/3: killed with" in done.stdout
    assert "shards: 0 requests computed here" in done.stdout
    assert done.stdout.endswith("3 of 3 files have the same bytes\n")


def test_a_shard_that_ends_before_it_is_killed_is_no_proof(tmp_path):
    process = shards.FORK.Process()  # not started: it has journalled nothing, and is not alive
    with pytest.raises(SystemExit, match="before it could be killed"):
        shards.killed(process, tmp_path)


@pytest.mark.parametrize("kind", ["lift:{}", "judge:{}?verdict=logits"])
def test_the_float32_sample_is_shared_out_too(
    kind: str, tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "GROUPS_PER_BATCH", 4)  # so that 16 rows are several batches
    spec, half = kind.format(tiny.model()), Settings(dtype="bfloat16")
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
