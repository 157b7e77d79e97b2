"""Rows without answers, and a chat server that has a script: for tests of builds of pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from endpoints import Loopback
from palate.benchmarks import load_benchmark
from palate.seeding import digest, rng

LEFT_OUT = {"chosen", "rejected", "tie", "reference", "split"}


def tasting_rows(path: Path, most: int | None = None, **changed: Any) -> Path:
    """Write rows of `tasting` without their answers."""
    rows = []
    for pair in load_benchmark("tasting").rows[:most]:
        row = {name: value for name, value in pair.to_row().items() if name not in LEFT_OUT}
        rows.append({**row, **changed})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


class ScriptedModel:
    """Reads one aspect of the first sentence, and writes 80 words that no other prompt gets."""

    def __init__(self) -> None:
        self.prompts: list[tuple[str, str, int]] = []
        """Role, prompt and seed of every request."""
        self.refused: set[str] = set()
        """Words of a question whose answers are refused."""

    def __call__(self, path: str, body: Any) -> tuple[int, Any]:
        prompt = body["messages"][-1]["content"]
        reads = "three lines for each aspect" in prompt
        self.prompts.append(("reader" if reads else "writer", prompt, body["seed"]))
        texts = [self._text(prompt, body["seed"], k, reads) for k in range(body.get("n", 1))]
        choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in texts]
        return 200, {"choices": choices}

    def _text(self, prompt: str, seed: int, k: int, reads: bool) -> str:
        name = digest(prompt, seed, k)[:6]
        if reads:
            return f"Aspect: Answers like {name}\nReason: It shows.\nSentences: 1"
        if any(word in prompt for word in self.refused):
            return "I'm sorry, but I can't help with that."
        letters = rng("words", name).integers(0, 26, (80, 6))
        return " ".join("".join(chr(97 + int(c)) for c in word) for word in letters) + "."


def model_at(server: Loopback) -> str:
    """Return the spec of the server's model."""
    return f"api:scripted?base_url={server.url}&retries=0"
