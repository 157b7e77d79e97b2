"""Scores that something else computed, read from a file by prompt and response."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, FiniteFloat

from palate.data import FileReading, read_file
from palate.errors import DataError, UsageError
from palate.records import ScorerInfo, Scores, Settings, Slate, problem_of
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec

ROUNDING = 2.0**-6
"""How far two numbers of one response may lie apart, relative or absolute, in one order: in half
precision padding moves them by less."""
LISTS = {"responses", "scores", "reasons"}


class ScoreLine(BaseModel):
    """A line of `palate score`; other fields are not read."""

    model_config = ConfigDict(strict=True)

    id: str
    context: str
    key: str
    responses: list[str]
    scores: list[FiniteFloat | None]
    reasons: list[str | None] = []


class Precomputed:
    """Scores that `palate score` or RewardBench's program wrote into a file.

    A score is looked up by the prompt's hash (`key`) and the response's text. Of a response without
    one, the reason is that of the file, or that the file does not hold it.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.only(())
        self.file = Path(spec.need_reference("precomputed:scores.jsonl")).expanduser()
        self._quoting = session.quoting
        self._keys: set[str] = set()
        self._contexts: dict[str, None] = {}
        self._scores: dict[str, float | str] = {}
        self._differ = 0
        self._read()
        with self.file.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        note = f"scores from {self.file.name} (sha256 {content[:12]}): palate did not compute them"
        if self._differ:
            note += f"; {self._differ:,} came again, rounded otherwise, and the first counts"
        self.info = ScorerInfo(
            fingerprint=digest("precomputed", content, *filter(None, [self._quoting])),
            exact=True,
            notes=(note,),
            details={"reference": self.file.name, "content": content},
        )

    def need_any(self, slates: Iterable[Slate]) -> None:
        """Raise `UsageError` where the file holds no prompt of the benchmark under its context."""
        if not any(slate.prompt_key in self._keys for slate in slates):
            contexts = ", ".join(filter(None, self._contexts)) or "unnamed contexts"
            raise UsageError(
                f"{self.file}: holds no prompt of this benchmark under this context (it is of "
                f"{contexts}); name the data, context and --seed that it was made with"
            )

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield what the file holds."""
        for k, slate in enumerate(slates):
            missing = "response" if slate.prompt_key in self._keys else "prompt"
            places = (digest(slate.prompt_key, text) for text in slate.candidates)
            scored = [self._scores.get(place, f"{missing} not in the file") for place in places]
            values = [None if isinstance(score, str) else score for score in scored]
            reasons = [score if isinstance(score, str) else None for score in scored]
            yield k, Scores.of(values, reasons)

    def _read(self) -> None:
        lines: dict[tuple[str, str], int] = {}
        how = FileReading(structured=LISTS, quoting=self._quoting, errors="surrogatepass")
        for number, row in read_file(self.file, how):
            if isinstance(row, DataError):
                raise row
            try:
                line = ScoreLine.model_validate(_as_ours(row, number))
                first = lines.setdefault((line.id, line.context), number)
                if first < number:
                    raise ValueError(f"row {line.id!r} under {line.context} is in line {first} too")
                self._take(line)
            except ValueError as error:
                raise DataError(problem_of(error), file=str(self.file), line=number) from None
        if not lines:
            raise DataError("holds no scores", file=str(self.file))

    def _take(self, line: ScoreLine) -> None:
        self._keys.add(line.key)
        self._contexts.setdefault(line.context)
        reasons = line.reasons or [None] * len(line.scores)
        if not len(line.responses) == len(line.scores) == len(reasons):
            raise ValueError("expected as many scores, and reasons, as responses")
        twice = []
        for text, value, reason in zip(line.responses, line.scores, reasons, strict=True):
            place = digest(line.key, text)
            score = (reason or "no score") if value is None else value
            first = self._scores.setdefault(place, score)
            if value is None:
                continue  # a row without a stranger has the prompt of one to whom nothing is shown
            if isinstance(first, str):
                first = self._scores[place] = value
            if not math.isclose(first, value, rel_tol=ROUNDING, abs_tol=ROUNDING):
                raise ValueError(f"score {value} of a response that has {first} under this key")
            twice.append((first, value))
            self._differ += first != value
        for (first_a, a), (first_b, b) in combinations(twice, 2):
            if (a > b, a < b) != (first_a > first_b, first_a < first_b):
                raise ValueError(
                    "its responses stand in another order than in an earlier line with this key; "
                    "score in float32, one text at a time"
                )


def _as_ours(row: Any, number: int) -> Any:
    """Return a line of RewardBench's program as one of palate's."""
    if not isinstance(row, dict) or "scores_chosen" not in row:
        return row
    return {
        **{"key": row.get("key"), "id": f"line {number}", "context": ""},
        "responses": [row.get("chosen"), row.get("rejected")],
        "scores": [row["scores_chosen"], row.get("scores_rejected", "")],
    }
