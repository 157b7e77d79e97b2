"""What clients of a reward server post: answers of real words to rows of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from serving_clients import PostedAnswer

from palate.benchmarks import Dataset, load_benchmark
from palate.evaluation import ContextRows, make_rows
from palate.records import Context, Slate
from palate.seeding import rng

ROWS = 1021
"""A prime: no row has two answers among those that wait."""
QUESTION, SHORTEST, LENGTHS = 160, 200, 601
"""In characters; answers have from `SHORTEST` on so many lengths, about 120 tokens at the mean."""
STRIDE = 257


class BenchAnswers:
    """Numbered answers, as many as are asked for; answer k is to row k modulo `ROWS`.

    Rows share nothing but the template's beginning. Answers whose numbers are less than `LENGTHS`
    apart have different lengths, so that `longest` too gives each another score.
    """

    def __init__(self, context: Context, seed: int) -> None:
        pairs = load_benchmark("tasting").pairs
        texts = [text for p in pairs for text in (*(q.text for q in p.profile), p.chosen)]
        self._words = " ".join(dict.fromkeys(texts))
        self._stream = rng("bench answers", seed)
        self.rows: list[dict[str, Any]] = [
            {
                "id": f"row-{k}",
                "user_id": f"user-{k}",
                "question": self._run(f"{k}:", QUESTION),
                "responses": ["Yes.", "No."],
            }
            for k in range(ROWS)
        ]
        self._responses: list[str] = []
        self._slates: ContextRows = make_rows(
            Dataset.from_rows("rows", self.rows), context, seed=seed
        )

    def start(self, first: int) -> Iterator[PostedAnswer]:
        """Yield answers without end, as a client posts them."""
        for k in count(first):
            item = {"row": self.rows[k % ROWS]["id"], "response": self.response(k)}
            yield PostedAnswer(k, json.dumps({"items": [item]}).encode())

    def slate(self, number: int) -> Slate:
        """Return what a scorer reads of one answer."""
        return self._slates.slate(number % ROWS).replace(candidates=(self.response(number),))

    def response(self, number: int) -> str:
        """Return an answer's text."""
        while len(self._responses) <= number:
            k = len(self._responses)
            self._responses.append(self._run(f"{k}:", SHORTEST + k * STRIDE % LENGTHS))
        return self._responses[number]

    def _run(self, name: str, length: int) -> str:
        first = int(self._stream.integers(len(self._words) - length))
        return f"{name} {self._words[first : first + length]}"[: length - 1] + "."
