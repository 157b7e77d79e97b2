"""evaluate(benchmark, scorers, contexts) → a run of one of each, or a grid of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack, overload

from palate.benchmarks import Data, dataset_of, need_pairs, several_data
from palate.comparison.grid import Grid, plan_grid, run_grid
from palate.comparison.recalled import grid_key, recall, remember
from palate.errors import UsageError
from palate.evaluation import (
    Contexts,
    Rater,
    Raters,
    RecomputeOptions,
    Work,
    WorkOptions,
    evaluated,
)
from palate.execution import build_runner
from palate.records import Context
from palate.records.arguments import alone, checked
from palate.runs import Run


class EvaluateOptions(WorkOptions, total=False):
    """What `evaluate` takes besides what is evaluated."""

    noise_rows: int | None
    ask_again: float
    rate_undecided: bool
    kinds: str | None


@overload  # A text is also an iterable of texts.
def evaluate(  # type: ignore[overload-overlap]
    benchmark: Data,
    scorers: Rater,
    contexts: str | Context,
    *,
    name: str | None = None,
    **how: Unpack[EvaluateOptions],
) -> Run: ...


@overload
def evaluate(
    benchmark: Data | Sequence[Data],
    scorers: Raters,
    contexts: Contexts | None = None,
    *,
    name: str | None = None,
    **how: Unpack[EvaluateOptions],
) -> Grid: ...


@checked
def evaluate(
    benchmark: Data | Sequence[Data],
    scorers: Raters,
    contexts: Contexts | None = None,
    *,
    name: str | None = None,
    noise_rows: int | None = None,
    ask_again: float = 0.0,
    rate_undecided: bool = False,
    kinds: str | None = None,
    **options: Unpack[WorkOptions],
) -> Run | Grid:
    """Evaluate one scorer under one context on one benchmark, or a list of any of them.

    One of each is a `Run`, anything else a `Grid` with what the contexts gain. Without `contexts`,
    users with posts are shown nothing, five posts of theirs and as many words of a stranger; a
    personal scorer is shown nothing, and a model that was trained under contexts takes those.

    Data are a name, a path, a `Dataset`, a declared `Benchmark`, or rows as `Dataset.of` takes
    them. A scorer is a spec, an object, or a function of (question, response, user), where `user`
    is a tuple of the texts that are shown of the user. An object is called by `name`, else by its
    `spec`, its `name` or its class; a function by its name.

    `root` ("runs") is where runs live; None keeps them in memory. What is finished is not computed
    again; with `retry_unscored` replies that could not be read are asked for again. `start` is told
    of each piece of work and gives its progress. In half precision `noise_rows` of the rows are
    computed in float32 too, by default 16 or 2 %, whichever is more; of an endpoint the share
    `ask_again` is asked once more. With `rate_undecided` the responses of rated rows that their
    users called ties are scored too. With `kinds`, a trait, strangers who share it are shown
    too, and `Grid.kinds` has what of each gain knows the person and what the kind.

    Raises:
        UsageError: for arguments of another kind, two benchmarks, scorers or contexts of one name,
            contexts that differ in draws alone, `kinds` of a single run, and a scorer without
            `info` where runs are kept.
        DataError: for a row that breaks the row contract.
        And what loading models and scoring raise.

    Example:
        >>> run = evaluate("tasting", "longest", "none", root=None)
        >>> grid = evaluate("tasting", ["longest"], ["none", "profile:5"], root=None)
        >>> run.accuracy, [run.summary.context for run in grid.runs], grid.gains[0].value
        (0.5, ['none', 'profile:5'], 0.0)
    """
    work = Work.of(**options)
    twice = RecomputeOptions(noise_rows, ask_again).check()
    build_runner(work.session.engine)  # what cannot be read is refused before anything is loaded
    data, seed = several_data(benchmark), work.settings.seed
    names = work.scorers(scorers, name)
    specs = None if contexts is None else work.contexts(contexts)
    if data is None:
        pairs = dataset_of(benchmark, seed)  # type: ignore[arg-type]
        sets = [pairs]
    else:
        sets = [dataset_of(each, seed) for each in data]
    key = grid_key(sets, names, specs, work, twice, rate_undecided=rate_undecided, kinds=kinds)
    finished = recall(key, work)
    if data is None and alone(scorers) and specs is not None and alone(contexts):
        if kinds is not None:
            raise UsageError(f"kinds={kinds!r} makes a grid; give a list of contexts")
        if finished is not None:
            return finished.runs[0]
        need_pairs(pairs.rows, pairs.name)
        how = {"progress": work.start(f"{names[0]} · {specs[0]}"), "rate_undecided": rate_undecided}
        run = evaluated(names[0], pairs, specs[0], work, twice, **how)
        return remember(key, Grid((run,), (), ()), work).runs[0]
    if finished is not None:
        return finished
    cells = plan_grid(sets, names, specs, work, rate_undecided=rate_undecided, kinds=kinds)
    return remember(key, run_grid(cells, work, twice), work)
