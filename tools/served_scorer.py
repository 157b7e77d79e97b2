"""A scorer twice: behind `palate serve` in a process of its own, and in this process."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from served_answers import BenchAnswers
from server_process import ServerProcess
from serving_clients import AnswerReply, ask, read_text

from palate.contexts import build_context
from palate.errors import EngineError
from palate.files import write_whole
from palate.records import Scorer, Settings
from palate.scorers import build_scorer
from palate.session import Session

WARM_UP = 1.0
PAUSE = 0.1
COUNTERS = re.compile(r"^palate_batch_(\w+) (\S+)$", re.MULTILINE)


class BatchCounts(NamedTuple):
    """What a server has counted of its batches."""

    batches: float
    answers: float
    seconds: float

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what a page for Prometheus says.

        >>> BatchCounts.read("palate_batch_answers_count 2.0\\npalate_batch_answers_sum 9.0\\n"
        ...                  "palate_batch_seconds_sum 0.5")
        BatchCounts(batches=2.0, answers=9.0, seconds=0.5)
        """
        counters = {name: float(value) for name, value in COUNTERS.findall(text)}
        names = ("answers_count", "answers_sum", "seconds_sum")
        return cls(*(counters[name] for name in names))

    def since(self, earlier: BatchCounts) -> BatchCounts:
        """Return what was counted in between."""
        return BatchCounts(*(now - then for now, then in zip(self, earlier, strict=True)))


@dataclass(frozen=True)
class Turn:
    """What clients were told in a while, and what the same answers get in this process."""

    replies: Sequence[AnswerReply]
    scores: Sequence[float]
    """Of the answer of each reply."""
    server_s: float
    in_process_s: float
    counted: BatchCounts


class ServedScorer:
    """A scorer here, the command that serves it, and answers that neither has seen."""

    def __init__(self, spec: str, session: Session, settings: Settings, folder: Path) -> None:
        self._answers = BenchAnswers(build_context("none", session, settings), settings.seed)
        self._next = 0
        scorer = build_scorer(spec, session, settings)
        assert isinstance(scorer, Scorer)
        self._scorer = scorer
        file = folder / "rows.jsonl"
        write_whole(file, "\n".join(map(json.dumps, self._answers.rows)))
        self.command = [
            "-m",
            "palate",
            "serve",
            "-s",
            spec,
            "-c",
            "none",
            "-b",
            str(file),
            "--port",
            "0",
            "--seed",
            str(settings.seed),
            *(("--batch-tokens", str(settings.batch_tokens)) if settings.batch_tokens else ()),
            *(() if settings.dtype is None else ("--dtype", settings.dtype)),
            *(() if settings.device is None else ("--device", settings.device)),
        ]

    def begin(self, server: ServerProcess, clients: int) -> None:
        """Wait until the server is ready; what is made once is made now, there and here."""
        while asyncio.run(read_text(f"{server.url}/readyz"))[0] != 200:
            server.check()
            time.sleep(PAUSE)
        self.turn(server, clients, WARM_UP)

    def turn(self, server: ServerProcess, clients: int, seconds: float) -> Turn:
        """Let clients post for a while; then, while the server waits, score what they posted."""
        before = _counts(server)
        answers = self._answers.start(self._next)
        replies = asyncio.run(ask(server.url, answers, clients, seconds))
        counted = _counts(server).since(before)
        numbers = [reply.number for reply in replies.replies]
        self._next = max(numbers) + 1
        started = time.perf_counter()
        slates = [self._answers.slate(k) for k in numbers]
        scores = dict(self._scorer.score(slates))
        in_process_s = time.perf_counter() - started
        values = [scores[k].values[0] for k in range(len(slates))]
        assert None not in values, "every answer is short and not blank"
        return Turn(
            replies.replies,
            [float(value or 0.0) for value in values],
            replies.seconds,
            in_process_s,
            counted,
        )


def _counts(server: ServerProcess) -> BatchCounts:
    status, text = asyncio.run(read_text(f"{server.url}/metrics"))
    if status != 200:
        server.check()
        raise EngineError(f"{server.url}/metrics answers with {status}: is it `palate serve`?")
    return BatchCounts.read(text)
