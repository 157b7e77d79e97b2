"""What compiled layers save: the same trees read with and without them, in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from bench_prefix import load_model
from bench_work import FULL, BenchCase, draw_work

from palate.engines import LocalModel, TokenSpan
from palate.errors import UsageError
from palate.models import choose_device
from palate.records import Progress, Settings

NAMES = "pairs, P = 512", "best of 16, P = 1024"
COMPILED = tuple(it._replace(slates=it.slates // 2) for it in FULL if it.name in NAMES)
TURNS = 3


@dataclass(frozen=True)
class CompileBench:
    """One case; times are medians over turns."""

    case: str
    dtype: str
    plain_s: float
    compiled_s: float
    loading_s: float
    """Loading of the compiled model, compilation included."""
    difference: float
    """Of the last hidden states: root mean square, relative."""


def bench_compile(
    model: str, *, settings: Settings, cases: Sequence[BenchCase], progress: Progress
) -> list[CompileBench]:
    """Measure every case; raises `UsageError` where the layers cannot be compiled."""
    clock = time.process_time if choose_device(settings.device) == "cpu" else time.perf_counter
    plain = load_model(model, settings.model_copy(update={"compile": "off"}))
    started = time.perf_counter()
    compiled = load_model(model, settings.model_copy(update={"compile": "on"}))
    loading = time.perf_counter() - started
    if compiled.notes:
        raise UsageError("; ".join(compiled.notes))
    benches = []
    for n, case in enumerate(cases):
        work = draw_work(plain, case)
        groups = [
            [TokenSpan(ids, start, len(ids)) for ids in slate]
            for slate, start in zip(work.slates, work.starts, strict=True)
        ]
        times: dict[int, list[float]] = {0: [], 1: []}
        outputs = [torch.empty(0), torch.empty(0)]
        for turn in range(-1, TURNS):  # the first is not counted
            for which, local in enumerate((plain, compiled)):
                started = clock()
                outputs[which] = _read(local, groups)
                if turn >= 0:
                    times[which].append(clock() - started)
            progress(n * (TURNS + 1) + turn + 2, len(cases) * (TURNS + 1))
        apart = (outputs[1] - outputs[0]).norm() / outputs[0].norm()
        plain_s, compiled_s = (statistics.median(times[which]) for which in (0, 1))
        dtype = str(plain.dtype).removeprefix("torch.")
        benches.append(CompileBench(case.name, dtype, plain_s, compiled_s, loading, float(apart)))
    return benches


def _read(local: LocalModel, groups: Sequence[Sequence[TokenSpan]]) -> torch.Tensor:
    made = dict(local.hidden(groups))
    return torch.cat([part for k in sorted(made) for part in made[k]])
