"""Results that no change may move: exact scorers byte for byte, tiny models to 1e-5.

Floats differ between processors, so what a real model gives is compared by `tools/golden.py`, which
runs both versions here. `PALATE_GOLDEN=write` writes the stored files anew.
"""

import json
import os
from pathlib import Path

import pytest

from palate.benchmarks import load_benchmark
from palate.comparison import evaluate

FOLDER = Path(__file__).parent / "golden"
WRITE = os.environ.get("PALATE_GOLDEN") == "write"
CONTEXTS = ("none", "profile:2", "stranger:2")
N = 8


def stored(name: str, text: str) -> str:
    file = FOLDER / name
    if WRITE:
        file.write_text(text, encoding="utf-8")
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize("scorer", ["random", "longest", "shortest"])
def test_exact_scorers_give_the_stored_bytes(scorer: str, tmp_path: Path) -> None:
    run = evaluate(load_benchmark("tasting", limit=N), scorer, "stranger:2", root=tmp_path)
    files = sorted(run.folder.glob("*.json*"), key=lambda file: file.name)
    texts = {
        file.name: file.read_text(encoding="utf-8")
        for file in files
        if file.name not in ("manifest.json", "journal.jsonl", "sums.json")
    }
    assert {name: stored(f"{scorer}.{name}", text) for name, text in texts.items()} == texts


@pytest.mark.parametrize("kind", ["likelihood", "lift", "rating", "classifier", "judge"])
def test_tiny_models_give_the_stored_margins(kind: str, tiny) -> None:  # type: ignore[no-untyped-def]
    folder = tiny.classifier() if kind == "classifier" else tiny.model()
    spec = f"{kind}:{folder}{'?verdict=logits' if kind in ('judge', 'rating') else ''}"
    pairs = load_benchmark("tasting", limit=N)
    margins = {
        context: [row.margin for row in evaluate(pairs, spec, context, root=None).verdicts.rows]
        for context in CONTEXTS
        if kind != "lift" or context != "none"
    }
    before = json.loads(stored(f"{kind}.margins.json", json.dumps(margins, indent=1)))
    assert list(before) == list(margins)
    for context, values in margins.items():
        assert values == [
            value if value is None else pytest.approx(value, abs=1e-5) for value in before[context]
        ]
