"""Scores that something else computed, read from a file by prompt and response."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, FiniteFloat

from palate.data import read_file
from palate.errors import DataError, UsageError
from palate.records import ScorerInfo, Scores, Settings, Slate, problem_of
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec

ROUNDING = 2.0**-6
"""How far two numbers of one response may lie apart, relative or absolute: in half precision
padding moves them by less."""


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
        del session, settings
        spec.only(())
        self.file = Path(spec.need_reference("precomputed:scores.jsonl")).expanduser()
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
            fingerprint=digest("precomputed", content),
            exact=True,
            notes=(note,),
            details={"reference": self.file.name, "content": content},
        )

    def need_any(self, slates: Iterable[Slate]) -> None:
        """Raise `UsageError` where the file holds no prompt of the benchmark under its context."""
        if not any(slate.prompt_key in self._keys for slate in slates):
            contexts = f" (it is of {', '.join(self._contexts)})" if self._contexts else ""
            raise UsageError(
                f"{self.file}: holds no prompt of this benchmark under this context{contexts}; "
                "name the data, context and --seed that it was made with"
            )

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield what the file holds."""
        for k, slate in enumerate(slates):
            missing = "response" if slate.prompt_key in self._keys else "prompt"
            places = (digest(slate.prompt_key, text) for text in slate.candidates)
            scored = [self._scores.get(place, f"{missing} not in the file") for place in places]
            values = tuple(None if isinstance(it, str) else it for it in scored)
            reasons = tuple(it if isinstance(it, str) else None for it in scored)
            yield k, Scores(values=values, reasons=reasons if any(reasons) else ())

    def _read(self) -> None:
        rows: dict[tuple[str, str], int] = {}
        lists = {"responses", "scores", "reasons"}
        for number, row in read_file(self.file, structured=lists, errors="surrogatepass"):
            if isinstance(row, DataError):
                raise row
            of_rewardbench = isinstance(row, dict) and "scores_chosen" in row
            try:
                line = ScoreLine.model_validate(_as_ours(row) if of_rewardbench else row)
                if not of_rewardbench and rows.setdefault((line.id, line.context), number) < number:
                    first = rows[line.id, line.context]
                    raise ValueError(f"row {line.id!r} under {line.context} is in line {first} too")
                self._take(line)
            except ValueError as error:
                raise DataError(problem_of(error), file=str(self.file), line=number) from None
            self._contexts |= {} if of_rewardbench else {line.context: None}
        if not self._keys:
            raise DataError("holds no scores", file=str(self.file))

    def _take(self, line: ScoreLine) -> None:
        self._keys.add(line.key)
        reasons = line.reasons or [None] * len(line.scores)
        if not len(line.responses) == len(line.scores) == len(reasons):
            raise ValueError("expected as many scores, and reasons, as responses")
        for text, value, reason in zip(line.responses, line.scores, reasons, strict=True):
            score = (reason or "no score") if value is None else value
            place = digest(line.key, text)
            first = self._scores.setdefault(place, score)
            self._differ += first != score
            if first != score and not _close(first, score):
                raise ValueError(f"score {score} of a response that has {first} under this key")


def _close(first: float | str, second: float | str) -> bool:
    if isinstance(first, str) or isinstance(second, str):
        return False
    return math.isclose(first, second, rel_tol=ROUNDING, abs_tol=ROUNDING)


def _as_ours(row: dict[str, Any]) -> dict[str, Any]:
    """Return a line of RewardBench's program as one of palate's."""
    return {
        **{"key": row.get("key"), "id": "", "context": ""},
        "responses": [row.get("chosen"), row.get("rejected")],
        "scores": [row["scores_chosen"], row.get("scores_rejected", "")],
    }
