"""Several scorers under several contexts on several benchmarks: one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from palate.benchmarks import Dataset, dataset_of
from palate.comparison.gains import gains_of, without_draws
from palate.contexts import build_context
from palate.errors import UsageError
from palate.evaluation import (
    Options,
    Start,
    evaluate,
    meaningless,
    need_choices,
    refuse,
    spec_of,
    with_states,
)
from palate.execution import build_runner
from palate.records import Record, traits_of
from palate.runs import Gain, GroupView, RatingFigures, Run, Summary, Tabular
from palate.scorers import build_scorer
from palate.specs import Spec


class Cell(NamedTuple):
    """One place in the grid: canonical specs, and whether it has a meaning."""

    benchmark: Dataset
    scorer: str
    context: str
    meaningless: bool
    draws: int = 1
    """How often a row is judged: once for each stranger that it is given."""


class Evaluation(Record):
    """Of `palate evaluate`."""

    runs: tuple[Summary, ...]
    gains: tuple[Gain, ...]
    groups: tuple[GroupView, ...] = ()
    """Only with `--by`."""
    ratings: tuple[RatingFigures, ...] = ()
    """Only with `--target rating`."""


@dataclass(frozen=True)
class Grid(Tabular):
    """The runs of a grid, the cells without meaning, and what the contexts gained."""

    kind: ClassVar[str] = "evaluation"
    content_type = Evaluation
    runs: tuple[Run, ...]
    missing: tuple[tuple[str, str, str], ...]
    gains: tuple[Gain, ...]
    groups: tuple[GroupView, ...] = ()
    """By groups of rows or users, where that was asked for."""
    ratings: tuple[RatingFigures, ...] = ()
    """Against users' own ratings, where that was asked for."""

    def content(self) -> Evaluation:
        """Return all but the verdicts."""
        summaries = tuple(run.summary for run in self.runs)
        return Evaluation(
            runs=summaries, gains=self.gains, groups=self.groups, ratings=self.ratings
        )


def evaluate_grid(
    benchmarks: str | Path | Dataset | Sequence[str | Path | Dataset],
    scorers: str | Iterable[str],
    contexts: str | Iterable[str] = "none",
    *,
    root: Path | str | None = "runs",
    options: Options | None = None,
    start: Start | None = None,
) -> Grid:
    """Evaluate every scorer under every context on every benchmark, and what contexts gain.

    `root` is where runs live; None keeps them in memory. `start` is told of each piece of work and
    gives its progress. What is finished is not computed again.

    Raises what `evaluate` does, and `UsageError` for two benchmarks of one name and for two
    contexts that differ in draws alone.

    >>> grid = evaluate_grid("tasting", "longest", ["none", "profile:5"], root=None)
    >>> [run.summary.context for run in grid.runs], grid.gains[0].value
    (['none', 'profile:5'], 0.0)
    """
    options = options or Options()
    given = [benchmarks] if isinstance(benchmarks, str | Path | Dataset) else benchmarks
    cells = plan_grid(
        [dataset_of(benchmark, options.settings.seed) for benchmark in given],
        [scorers] if isinstance(scorers, str) else scorers,
        [contexts] if isinstance(contexts, str) else contexts,
        options,
    )
    return run_grid(cells, root=root, options=options, start=start)


def plan_grid(
    benchmarks: Sequence[Dataset],
    scorers: Iterable[str],
    contexts: Iterable[str],
    options: Options,
) -> list[Cell]:
    """Return the cells in the order they are run: scorer by scorer, so that a model is loaded once.

    Every spec is built, and so checked, before anything is computed. Raises `UsageError` for two
    benchmarks of one name, and for two contexts that differ in draws alone.
    """
    build_runner(options.engine)
    names = [pairs.name for pairs in benchmarks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two benchmarks are named {twice}: rename a file, or run them apart")
    shown = [build_context(text, options.settings) for text in dict.fromkeys(contexts)]
    shown = list({context.spec: context for context in shown}.values())
    _refuse_other_draws([context.spec for context in shown])
    cells = []
    asked = dict.fromkeys(str(Spec.parse(scorer)) for scorer in scorers)
    texts = [
        one for text in asked for one in with_states(text, build_scorer(text, options.settings))
    ]
    planned = set()
    for text in dict.fromkeys(texts):
        contestant = build_scorer(text, options.settings)
        if spec_of(contestant, text) in planned:
            continue
        planned.add(spec_of(contestant, text))
        traits = traits_of(contestant, text)
        for pairs in benchmarks:
            need_choices(contestant, pairs, text)
            for context in shown:
                void = meaningless(traits, context)
                if not void:
                    refuse(traits, context, text)
                draws = getattr(context, "draws", 1) * getattr(contestant, "draws", 1)
                cells.append(Cell(pairs, text, context.spec, void, draws))
    return cells


def _refuse_other_draws(contexts: Sequence[str]) -> None:
    first: dict[str, str] = {}
    for context in contexts:
        spec = without_draws(context)
        if spec is None or spec.options.get("of") != "stranger":
            continue
        other = first.setdefault(str(spec), context)
        if other != context:
            raise UsageError(
                f"{other} and {context} differ in draws alone, and a gain has one stranger's "
                "context; ask for one of them"
            )


def run_grid(
    cells: Sequence[Cell],
    *,
    root: Path | str | None,
    options: Options,
    start: Start | None = None,
) -> Grid:
    """Run every cell that has a meaning."""
    runs = [
        evaluate(
            cell.scorer, cell.benchmark, cell.context, root=root, options=options,
            progress=start and start(f"{cell.scorer} · {cell.context}"),
        )
        for cell in cells if not cell.meaningless
    ]  # fmt: skip
    missing = tuple((c.benchmark.name, c.scorer, c.context) for c in cells if c.meaningless)
    return Grid(tuple(runs), missing, tuple(gains_of(runs, missing)))
