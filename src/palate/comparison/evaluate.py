"""evaluate(benchmark, scorers, contexts) → a run of one of each, or a grid of many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias, TypedDict, Unpack, overload

from palate.benchmarks import Dataset, dataset_of
from palate.comparison.grid import Grid, plan_grid, run_grid
from palate.errors import UsageError
from palate.evaluation import Start, Twice, Work
from palate.evaluation import evaluate as evaluate_run
from palate.records import Context, Judge, Scorer, Settings
from palate.runs import Run
from palate.session import Session

Data: TypeAlias = str | Path | Dataset
Rater: TypeAlias = str | Scorer | Judge


class EvaluateOptions(TypedDict, total=False):
    """What `evaluate` takes besides what is evaluated."""

    root: Path | str | None
    session: Session | None
    settings: Settings | None
    retry_unscored: bool
    start: Start | None
    noise_rows: int | None
    ask_again: float
    rate_undecided: bool


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
    scorers: str | Iterable[str],
    contexts: str | Iterable[str] | None = None,
    **how: Unpack[EvaluateOptions],
) -> Grid: ...


def evaluate(
    benchmark: Data | Sequence[Data],
    scorers: Rater | Iterable[str],
    contexts: str | Context | Iterable[str] | None = None,
    *,
    name: str | None = None,
    root: Path | str | None = "runs",
    session: Session | None = None,
    settings: Settings | None = None,
    retry_unscored: bool = False,
    start: Start | None = None,
    noise_rows: int | None = None,
    ask_again: float = 0.0,
    rate_undecided: bool = False,
) -> Run | Grid:
    """Evaluate one scorer under one context on one benchmark, or a list of any of them.

    One of each is a `Run`, anything else a `Grid` with what the contexts gain. Without `contexts`,
    users with posts are shown nothing, five posts of theirs and as many words of a stranger; a
    personal scorer is shown nothing. A scorer object needs a `name`, which stands for its spec.

    `root` ("runs") is where runs live; None keeps them in memory. What is finished is not computed
    again; with `retry_unscored` replies that could not be read are asked for again. `start` is told
    of each piece of work and gives its progress. In half precision `noise_rows` of the rows are
    computed in float32 too, by default 16 or 2 %, whichever is more; of an endpoint the share
    `ask_again` is asked once more. With `rate_undecided` the responses of rated rows that their
    users called ties are scored too.

    Raises:
        UsageError: for a scorer object or a context object among many, two benchmarks of one name,
            and contexts that differ in draws alone.
        And what loading and scoring raise.

    >>> run = evaluate("tasting", "longest", "none", root=None)
    >>> grid = evaluate("tasting", ["longest"], ["none", "profile:5"], root=None)
    >>> run.accuracy, [run.summary.context for run in grid.runs], grid.gains[0].value
    (0.5, ['none', 'profile:5'], 0.0)
    """
    if not (_many(benchmark) or _many(scorers) or contexts is None or _many(contexts)):
        return evaluate_run(
            benchmark,  # type: ignore[arg-type]
            scorers,  # type: ignore[arg-type]
            contexts,  # type: ignore[arg-type]
            name=name,
            root=root,
            session=session,
            settings=settings,
            retry_unscored=retry_unscored,
            progress=None if start is None else start(f"{name or scorers} · {contexts}"),
            noise_rows=noise_rows,
            ask_again=ask_again,
            rate_undecided=rate_undecided,
        )
    for what, given in (("scorer", scorers), ("context", contexts)):
        if not (given is None or isinstance(given, str) or _many(given)):
            raise UsageError(
                f"{what} {given!r}: an object is evaluated alone; name one benchmark, one scorer "
                "and one context"
            )
    work = Work.of(session, settings, root, retry_unscored=retry_unscored, start=start)
    listed = [benchmark] if isinstance(benchmark, str | Path | Dataset) else benchmark
    cells = plan_grid(
        [dataset_of(each, work.settings.seed) for each in listed],
        [scorers] if isinstance(scorers, str) else scorers,  # type: ignore[arg-type]
        [contexts] if isinstance(contexts, str) else contexts,  # type: ignore[arg-type]
        work,
        rate_undecided=rate_undecided,
    )
    return run_grid(cells, work, Twice(noise_rows, ask_again))


def _many(given: object) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, str | Path | Dataset)
