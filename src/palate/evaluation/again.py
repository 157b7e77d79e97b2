"""Some rows of a run computed twice: in float32 beside half precision, or asked once more."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from palate.benchmarks import Dataset
from palate.engines.local.memory import is_out_of_memory
from palate.errors import ResourceError, RunError, UsageError
from palate.evaluation.bound_scorer import BoundScorer
from palate.evaluation.computation import Computation
from palate.evaluation.context_rows import ContextRows
from palate.evaluation.states import with_states_of
from palate.evaluation.verdict_rows import verdict_rows
from palate.execution import ScorerJob, build_runner
from palate.execution.runner import HERE, Batch, BatchResult
from palate.models import choose_device, choose_dtype
from palate.records import Progress, Settings, Slate
from palate.runs import Journal, Noise, Run, Verdicts, noise_of
from palate.runs.run import AGAIN
from palate.seeding import unit

LEAST_ROWS, LEAST_SHARE = 16, 0.02
"""Rows of a run in half precision that are computed in float32 too: the larger of the two."""
Kind = Literal["rounding", "asking again"]
JOURNALS: Mapping[Kind, str] = {
    "rounding": "float32.journal.jsonl",
    "asking again": "again.journal.jsonl",
}
NO_SPEC = "the scorer is an object, not a spec, so palate cannot build it a second time"
NOT_WANTED = "not asked for (--noise-rows 0)"
NO_ROOM = "the model in float32 does not fit into memory"


class Twice(NamedTuple):
    """Which rows are computed twice, if any: `--noise-rows`, `--ask-again`."""

    noise_rows: int | None = None
    """Of half precision; None for 16 rows or 2 %, whichever is more."""
    ask_again: float = 0.0
    """Share of an endpoint's rows."""

    def check(self) -> Twice:
        """Return it; raises `UsageError` naming the option that is wrong."""
        rows, share = self
        if rows is not None and rows < 0:
            raise UsageError(f"--noise-rows {rows}: expected a number of rows, 0 for none")
        if not 0 <= share <= 1:
            raise UsageError(f"--ask-again {share:g}: expected a share of the rows, 0 to 1")
        return self

    def float32_rows(self, rows: int) -> int:
        """Return how many of so many rows are computed in float32 too."""
        usual = max(LEAST_ROWS, math.ceil(LEAST_SHARE * rows))
        return min(rows, usual if self.noise_rows is None else self.noise_rows)


USUAL = Twice()
"""What is usual: rows of half precision are computed twice, an endpoint's are not."""


class FirstTime(NamedTuple):
    """What a run gave, and where it lies."""

    verdicts: Verdicts | None
    """None of a shard, which gives none: a sample is computed, and says nothing yet."""
    folder: Path | None
    progress: Progress


class SampledRows:
    """Some pairs of a run's rows, with every draw of each."""

    def __init__(self, rows: ContextRows, pairs: Sequence[int]) -> None:
        self._rows = rows
        self._at = [pair * rows.draws + draw for pair in pairs for draw in range(rows.draws)]

    def __len__(self) -> int:
        return len(self._at)

    def prepare(self) -> None:
        """Do nothing: the run's own plan has prepared all of its rows."""

    def id(self, row: int) -> str:
        """Return the row's id."""
        return self._rows.id(self._at[row])

    def slate(self, row: int) -> Slate:
        """Return the row's slate."""
        return self._rows.slate(self._at[row])

    def candidates(self, row: int) -> tuple[str, ...]:
        """Return the slate's candidates."""
        return self._rows.candidates(self._at[row])


class RoomFirst:
    """A job's runner, which begins only where the models in this process fit into memory."""

    def __init__(self, job: BoundScorer) -> None:
        self._runner = build_runner(job.work.session.engine)
        self._here = job.work.session.engine in (None, HERE)
        self._work, self._spec = job.work, job.spec

    def groups_per_batch(self, groups: int) -> int:
        """Return how many of an exact scorer's groups make one unit."""
        return self._runner.groups_per_batch(groups)

    def run(self, task: ScorerJob, units: Iterable[Batch]) -> Iterator[BatchResult]:
        """Yield results; raises `ResourceError` before the first where there is no room."""
        return self._runner.run(task, self._checked(units))

    def _checked(self, units: Iterable[Batch]) -> Iterator[Batch]:
        for number, batch in enumerate(units):
            if self._here and not number and not self._work.session.has_room(self._work.settings):
                raise ResourceError(f"{self._spec}: out of memory before it is loaded")
            yield batch


def sampled(pairs: Dataset, n: int, seed: int) -> list[int]:
    """Return at least n rows in their order, whole couples, drawn from hash(seed, id).

    More rows hold fewer, and the order of the file changes nothing.
    """
    ids = [row.id for row in pairs.rows]
    others = {a: b for couple in pairs.couples for a, b in (couple, couple[::-1])}
    units = {
        min((ids[k], k), (ids[others.get(k, k)], others.get(k, k)))[1] for k in range(len(ids))
    }
    chosen: set[int] = set()
    for k in sorted(units, key=lambda k: (unit("computed twice", seed, ids[k]), ids[k])):
        if len(chosen) >= n:
            break
        chosen |= {k, others.get(k, k)}
    return sorted(chosen)


def computed_twice(
    job: BoundScorer, first: Computation, run: FirstTime, twice: Twice
) -> tuple[Noise | None, Verdicts | None]:
    """Compute a sample of a run's rows a second time; what that says, and the second verdicts.

    Both are None where it does not apply: float32, an endpoint that nobody wants asked again, and
    whatever reads no model. What an earlier call kept stays unless an option says otherwise.
    """
    if any(details.get("base_url") for details in first.details):
        return _asked_again(job, first, run, twice.ask_again)
    dtype = half_precision(job.work.settings, first)
    return (None, None) if dtype is None else _in_float32(job, first, run, twice, dtype)


def _asked_again(
    job: BoundScorer, first: Computation, run: FirstTime, share: float
) -> tuple[Noise | None, Verdicts | None]:
    if not share:
        return _earlier_sample(run, "asking again", 1)
    if job.text is None:
        return Noise(kind="asking again", note=NO_SPEC), None
    work = replace(job.work, session=job.work.session.without_replies())
    n = math.ceil(share * len(job.pairs.rows))
    return _measured(replace(job, work=work), "asking again", n, first, run)


def _in_float32(
    job: BoundScorer, first: Computation, run: FirstTime, twice: Twice, dtype: str
) -> tuple[Noise | None, Verdicts | None]:
    n = twice.float32_rows(len(job.pairs.rows))
    if not n or job.text is None:
        return Noise(kind="rounding", dtype=dtype, note=NO_SPEC if n else NOT_WANTED), None
    noise, again = _earlier_sample(run, "rounding", n, dtype)
    if twice.noise_rows is None and again is not None:
        return noise, again
    settings = job.work.settings.model_copy(update={"dtype": "float32"})
    second = replace(job, work=replace(job.work, settings=settings))
    return _measured(second, "rounding", n, first, run, dtype)


def _earlier_sample(
    run: FirstTime, kind: Kind, least: int, dtype: str | None = None
) -> tuple[Noise | None, Verdicts | None]:
    """Return what the run's folder holds of this kind, of so many rows at least."""
    if run.verdicts is None or run.folder is None or not (run.folder / AGAIN).is_file():
        return None, None
    try:
        earlier = Run.read(run.folder)
    except RunError:  # unfinished
        return None, None
    noise, again = earlier.summary.noise, earlier.again
    if noise is None or again is None or noise.kind != kind or len(again) < least:
        return None, None
    return noise_of(run.verdicts, again, kind, dtype), again


def half_precision(settings: Settings, first: Computation) -> str | None:
    """Return the half precision that a run's models compute in; None for float32 and no model."""
    if settings.dtype == "float32" or not first.models:
        return None
    dtype = str(choose_dtype(settings.dtype, choose_device(settings.device)))
    return None if dtype.endswith("float32") else dtype.removeprefix("torch.")


def _measured(
    job: BoundScorer,
    kind: Kind,
    n: int,
    first: Computation,
    run: FirstTime,
    dtype: str | None = None,
) -> tuple[Noise | None, Verdicts | None]:
    """Compute n rows of a job that is like the run's but for its settings or session."""
    assert job.text is not None, "an object is not built twice"
    scorer = with_states_of(job.work.scorer(job.text), job.scorer, job.pairs, job.spec)
    job, pairs = replace(job, scorer=scorer), sampled(job.pairs, n, job.work.settings.seed)
    computation = job.computation(SampledRows(job.rows, pairs))
    if kind == "rounding" and computation.fingerprints == first.fingerprints:
        return None, None  # such as of sentence embedders, which compute in float32 always
    with ExitStack() as stack:
        journal = None
        if run.folder is not None:
            journal = stack.enter_context(Journal(run.folder / JOURNALS[kind]))
        try:
            passes = computation.run(journal, None, run.progress, RoomFirst(job))
        except Exception as error:  # what runs out of memory is anybody's guess
            if kind == "asking again" or not is_out_of_memory(error):
                raise
            return Noise(kind=kind, dtype=dtype, note=NO_ROOM), None
    if run.verdicts is None:
        return None, None
    again = Verdicts(verdict_rows(job, passes, pairs))
    return noise_of(run.verdicts, again, kind, dtype), again
