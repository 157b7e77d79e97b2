"""palate evaluate: scorers × contexts × benchmarks, one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from palate.benchmarks import Dataset
from palate.cli import options as flags
from palate.cli.compute_options import ComputingTwice
from palate.cli.console import bars, bars_of, err, show, show_text, width
from palate.cli.data_options import LoadingAnyLayout
from palate.cli.flatten import flatten_options
from palate.cli.shard import say_what_shards_did
from palate.cli.show import first_prompt
from palate.comparison import (
    Grid,
    PlannedCell,
    check_by,
    check_ratings,
    groups_of,
    plan_grid,
    ratings_of,
    run_grid,
)
from palate.comparison.lacking import write_lacking
from palate.engines.http.batch_files import RequestFile
from palate.errors import EndpointError, UnscoredError, UsageError
from palate.evaluation import Twice, Work, with_shots
from palate.records import Settings
from palate.reports import (
    Form,
    context_name,
    grid_tables,
    group_tables,
    most_common,
    rating_tables,
    screens,
)
from palate.session import Session
from palate.specs import Spec


@dataclass(frozen=True)
class Shots:
    """How many of a user's choices personal scorers adapt to."""

    shots: flags.Shots = None
    repeats: flags.Repeats = 1


@dataclass(frozen=True)
class Reported:
    """What is printed, and when that is not good enough."""

    details: flags.Details = False
    by: flags.By = None
    target: flags.Against = flags.Target.PREFERENCE
    strict: flags.Strict = False
    form: flags.Format = Form.TABLE


@flatten_options
def evaluate(
    benchmark: flags.Benchmarks,
    scorer: flags.Scorers,
    *,
    context: flags.UsualContexts = None,
    output: flags.Root = Path("runs"),
    loading: LoadingAnyLayout,
    computing: ComputingTwice,
    drawn: Shots,
    reported: Reported,
    dry_run: flags.DryRun = False,
) -> None:
    """Evaluate scorers, each shown what the contexts choose of the user.

    Repeat -b, -s and -c for a grid. What is finished is not computed again. Without -c, users with
    posts are shown nothing, five posts of theirs, and as many words of a stranger.
    """
    by, rated = reported.by or [], reported.target is flags.Target.RATING
    settings, shard, requests = computing.settings(), computing.part(), computing.request_file()
    if dry_run and requests is not None:
        raise UsageError("--dry-run writes nothing: leave it out beside --requests")
    pair_sets = loading.load_all(benchmark, computing.seed)
    for pairs in pair_sets:
        _say_what_was_left_out(pairs)
    for pairs in pair_sets:
        for grouping in by:
            check_by(grouping, pairs)
        if rated:
            check_ratings(pairs)
    scorers = with_shots(scorer, drawn.shots or [], drawn.repeats)
    with computing.session() as session:
        retry = computing.retry_unscored
        work = Work.of(session, settings, output, retry_unscored=retry, shard=shard)
        cells = plan_grid(pair_sets, scorers, context, work, rate_undecided=rated)
        err.print(_size(cells), highlight=False, markup=False)
        if dry_run:
            _print_plan(cells, work.place or output, session, settings)
            return
        if requests is not None and _written(cells, work, requests):
            return
        twice = Twice(computing.noise_rows, computing.ask_again)
        with bars_of(session.ledger) as shown:
            grid = run_grid(cells, work.telling(shown.start), twice)
    say_what_shards_did(work)
    if shard is not None:
        return
    if by:
        grid = replace(grid, groups=tuple(groups_of(grid.runs, by)))
    if rated:
        grid = replace(grid, ratings=tuple(ratings_of(grid.runs, seed=computing.seed)))
    _show(grid, reported, output)
    _refuse_nothing(grid)
    if reported.strict and any(run.summary.unscored for run in grid.runs):
        raise typer.Exit(1)


def _written(cells: Sequence[PlannedCell], work: Work, requests: RequestFile) -> bool:
    """Write what the cache lacks, say it, and tell whether that was anything."""
    ledger = work.session.ledger
    with bars(ledger.progress) as shown:
        waiting = write_lacking(cells, work.telling(shown.start), requests)
    files = [
        f"{_number(it.requests, 'request')} in {it.path} ({it.asks})" for it in requests.batches
    ]
    later = f"; {_number(waiting, 'run')} will ask more when these are answered" if waiting else ""
    later += "; next: palate replies ANSWERS… --cache DIR, then this command again" if files else ""
    show_text(f"{'; '.join(files) or 'nothing lacks'}; {ledger.cached:,} from the cache{later}")
    return bool(files)


def _refuse_nothing(grid: Grid) -> None:
    """Raise for the first run in which nothing was scored."""
    for run in grid.all_unscored:
        summary = run.summary
        message = (
            f"{summary.scorer} under {context_name(summary.context)}: nothing was scored "
            f"({most_common(summary.unscored_reasons, 'rows')})"
        )
        if run.outages:
            raise EndpointError(f"{message}; run the same command again")
        if (Spec.parse(summary.scorer).reference or "").startswith("api:"):
            raise EndpointError(
                f"{message}; what came is kept, and asked again with --retry-unscored"
            )
        raise UnscoredError(message)


def _show(grid: Grid, reported: Reported, root: Path) -> None:
    first = screens(grid, root, hint=not reported.details)
    rest = [*group_tables(grid.groups), *rating_tables(grid.ratings)]
    if reported.details:
        rest = grid_tables(grid)
    if reported.form is Form.TABLE:
        show_text("\n\n".join(screen.text(width()) for screen in first))
    elif reported.form is not Form.JSON:
        rest = [screen.table() for screen in first] + rest
    if rest or reported.form is Form.JSON:
        show(rest, reported.form, grid.document())


def _size(cells: Sequence[PlannedCell]) -> str:
    runs = [cell for cell in cells if not cell.not_applicable]
    scorers = len({cell.scorer for cell in runs})
    contexts = ", ".join(dict.fromkeys(context_name(cell.context) for cell in runs))
    calls = sum(cell.calls for cell in runs)
    size = f"plan: {_number(len(runs), 'run')}, {_number(scorers, 'scorer')} under {contexts}"
    return f"{size}; models are given at most {calls:,} responses" if calls else size


def _number(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _say_what_was_left_out(pairs: Dataset) -> None:
    for error in pairs.bad_rows[:5]:
        err.print(f"left out: {error}", style="yellow", highlight=False, markup=False)
    if len(pairs.bad_rows) > 5:
        err.print(f"left out: {len(pairs.bad_rows) - 5} more bad rows", style="yellow")
    if pairs.history_left_out:
        said = (
            f"{pairs.history_left_out} past choices that are evaluated pairs of the same user, or "
            "were asked with a response of one"
        )
        err.print(f"{pairs.name}: left out: {said}", style="yellow", markup=False)
    if halves := pairs.halves_left_out:
        rows = f"{_number(halves, 'row')} whose mirror row is of another day"
        err.print(f"{pairs.name}: left out: {rows}", style="yellow", markup=False)
    if differing := pairs.couples_in_two_forms:
        err.print(
            f"{pairs.name}: {_number(differing, 'mirrored couple')} with texts that differ in "
            "white space or accents: there a scorer that ignores the user need not get 0.500",
            style="yellow",
            markup=False,
        )
    if pairs.unknown_columns:
        names = ", ".join(pairs.unknown_columns)
        err.print(f"{pairs.name}: columns palate does not know, never shown: {names}", markup=False)


def _print_plan(
    cells: Sequence[PlannedCell], output: Path, session: Session, settings: Settings
) -> None:
    for cell in cells:
        rows = len(cell.benchmark.pairs)
        times = f" × {cell.draws} draws" if cell.draws > 1 else ""
        if cell.rate_undecided and (undecided := len(cell.benchmark.undecided_to_rate)):
            times += f" + {undecided:,} undecided"
        fate = "no meaning: nothing shown" if cell.not_applicable else f"{rows:,} rows{times}"
        show_text(f"{cell.benchmark.name}  {cell.scorer}  {cell.context}  {fate}")
    show_text(f"runs go under {output}/")
    first = next((cell for cell in cells if not cell.not_applicable), None)
    if first is None:
        return
    show_text(f"\nthe first prompt of {first.scorer} under {first.context}:\n")
    benchmark, scorer, context = first.benchmark, first.scorer, first.context
    show_text(first_prompt(benchmark, scorer, context, session, settings))
