"""palate evaluate: scorers × contexts × benchmarks, one table; show: what a model sees of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import typer

from palate.benchmarks import Dataset
from palate.cli import options as flags
from palate.cli.console import bars, bars_of, err, show, show_text, width
from palate.cli.declare import option
from palate.cli.options import ComputingTwice, LoadingAnyLayout, LoadingOfLayout
from palate.comparison import (
    MARGIN,
    Grid,
    PlannedCell,
    check_by,
    check_ratings,
    costs_of,
    groups_of,
    plan_grid,
    ratings_of,
    run_grid,
)
from palate.comparison.grid import write_lacking
from palate.comparison.recalled import grid_key, recall, remember
from palate.contexts import with_costs
from palate.engines import RequestFile
from palate.errors import BenchmarkError, EndpointError, UnscoredError, UsageError
from palate.evaluation import RecomputeOptions, Work, adapt_to, make_rows, user_keys_fn, with_shots
from palate.execution import SHARDS
from palate.learning import refuse_trained
from palate.prompts import described
from palate.records import Slate, info_of
from palate.reports import Form, asked_tables, context_name, grid_tables, most_common, screens
from palate.reports.numbers import many
from palate.session import Session
from palate.specs import Spec


@dataclass(frozen=True)
class Shots:
    """How many of a user's choices personal scorers adapt to."""

    shots: list[int] = flags.run(
        [], "Choices per user that personal scorers adapt to; may be repeated."
    )
    repeats: int = flags.run(1, "Draws of each number of shots.", min=1)


@dataclass(frozen=True)
class Reported:
    """What is printed, of what a shown user costs too, and when that is not good enough."""

    details: bool = flags.DETAILS
    by: list[str] = flags.output(
        [], "Also by subgroup: subset, category, month, user or trait:NAME; repeat."
    )
    target: flags.Target = flags.output(
        flags.Target.PREFERENCE, "rating: also against the ratings that users gave."
    )
    kinds: str | None = flags.run(None, "Also strangers who share this trait.", metavar="TRAIT")
    users: str | None = flags.data(None, "Data whose users are lent to the rows.", metavar="FILE")
    pressure: bool = flags.run(False, "Also with the user stating the wrong answer.")
    margin: float = flags.output(MARGIN, "Largest fall in accuracy that is harmless.")
    strict: bool = flags.output(False, "Exit 1 if anything is unscored.")
    form: Form = flags.FORMAT


def evaluate(
    benchmark: list[str] = flags.BENCHMARKS,
    scorer: list[str] = flags.SCORERS,
    *,
    context: list[str] | None = flags.USUAL_CONTEXTS,
    output: Path = flags.ROOT,
    loading: LoadingAnyLayout,
    computing: ComputingTwice,
    drawn: Shots,
    reported: Reported,
    disjoint_from: list[str] = flags.data(
        [], "What models were trained on: no user of it may be here; or a .txt of users; repeat."
    ),
    dry_run: bool = flags.output(False, "Print plan and first prompt, run nothing."),
) -> None:
    """Evaluate scorers, each shown what the contexts choose of the user.

    Repeat -b, -s and -c for a grid. What is finished is not computed again. Without -c, users with
    posts are shown nothing, five posts of theirs, and as many words of a stranger; a model that was
    trained under contexts takes those.
    """
    by, rated = reported.by, reported.target is flags.Target.RATING
    costs_of((), margin=reported.margin)
    settings, shard, requests = computing.settings(), computing.part(), computing.request_file()
    if dry_run and requests is not None:
        raise UsageError("--dry-run writes nothing: leave it out beside --requests")
    pair_sets = loading.load_all(benchmark, computing.seed)
    for pairs in pair_sets:
        _say_what_was_left_out(pairs)
        refuse_trained(disjoint_from, pairs)
    named = [p.name for p in pair_sets if any(row.user_id != row.id for row in p.rows)]
    context = with_costs(context, reported.users, pressure=reported.pressure, named=named)
    for pairs in pair_sets:
        for grouping in by:
            check_by(grouping, pairs)
        if rated:
            check_ratings(pairs)
    scorers = with_shots(scorer, drawn.shots, drawn.repeats)
    with computing.session(loading.quoting) as session:
        retry = computing.retry_unscored
        work = Work.of(session, settings, output, retry_unscored=retry, shard=shard)
        twice = RecomputeOptions(computing.noise_rows, computing.ask_again).check()
        only_looks = dry_run or requests is not None
        asked = pair_sets, scorers, context, work, twice
        key = None if only_looks else grid_key(*asked, rate_undecided=rated, kinds=reported.kinds)
        grid = recall(key, work)
        if grid is not None:
            err.print(f"finished before: {many(len(grid.runs), 'run')} under {output}/")
        else:
            cells = plan_grid(
                pair_sets, scorers, context, work, rate_undecided=rated, kinds=reported.kinds
            )
            err.print(_size(cells))
            if only_looks and _looked(cells, work, requests, output):
                return
            with bars_of(session.ledger) as shown:
                grid = remember(key, run_grid(cells, work.telling(shown.start), twice), work)
    say_what_shards_did(work)
    if shard is not None:
        return
    groups, costs = groups_of(grid.runs, by), costs_of(grid.runs, margin=reported.margin)
    if reported.margin != MARGIN and not costs:
        what = "nothing is shown that could cost; add --users FILE, --pressure or --agreed only"
        err.print(f"--margin {reported.margin:g} is not read: {what} -c profile:5", style="yellow")
    ratings = ratings_of(grid.runs, seed=computing.seed) if rated else ()
    grid = replace(grid, groups=tuple(groups), ratings=tuple(ratings), costs=tuple(costs))
    _show(grid, reported, output)
    _refuse_nothing(grid)
    if reported.strict and any(run.summary.unscored for run in grid.runs):
        raise typer.Exit(1)


def _looked(
    cells: Sequence[PlannedCell], work: Work, requests: RequestFile | None, output: Path
) -> bool:
    """Print the plan, or write what the cache lacks; tell whether that is all."""
    if requests is None:
        _print_plan(cells, work, output)
        return True
    ledger = work.session.ledger
    with bars(ledger.progress) as shown:
        waiting = write_lacking(cells, work.telling(shown.start), requests)
    files = [f"{many(it.requests, 'request')} in {it.path} ({it.asks})" for it in requests.batches]
    later = f"; {many(waiting, 'run')} will ask more when these are answered" if waiting else ""
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
    first, on_screen = screens(grid, root, hint=not reported.details), reported.form is Form.TABLE
    rest = grid_tables(grid, times=on_screen) if reported.details else asked_tables(grid)
    if on_screen:
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
    size = f"plan: {many(len(runs), 'run')}, {many(scorers, 'scorer')} under {contexts}"
    return f"{size}; models are given at most {calls:,} responses" if calls else size


def _say_what_was_left_out(pairs: Dataset) -> None:
    for error in pairs.bad_rows[:5]:
        err.print(f"left out: {error}", style="yellow")
    if len(pairs.bad_rows) > 5:
        err.print(f"left out: {len(pairs.bad_rows) - 5} more bad rows", style="yellow")
    if pairs.history_left_out:
        said = (
            f"{pairs.history_left_out} past choices that are evaluated pairs of the same user, or "
            "were asked with a response of one"
        )
        err.print(f"{pairs.name}: left out: {said}", style="yellow")
    if halves := pairs.halves_left_out:
        rows = f"{many(halves, 'row')} whose mirror row is of another day"
        err.print(f"{pairs.name}: left out: {rows}", style="yellow")
    if differing := len(pairs.in_two_forms) // 2:
        err.print(
            f"{pairs.name}: {many(differing, 'mirrored couple')} with texts that differ in "
            "white space or accents: there a scorer that ignores the user need not get 0.500",
            style="yellow",
        )
    if pairs.account is not None and pairs.account.unread:
        names = ", ".join(pairs.account.unread)
        err.print(f"{pairs.name}: columns kept and never shown: {names}")


def _print_plan(cells: Sequence[PlannedCell], work: Work, output: Path) -> None:
    for cell in cells:
        rows = len(cell.benchmark.pairs)
        times = f" × {cell.draws} draws" if cell.draws > 1 else ""
        if cell.rate_undecided and (undecided := len(cell.benchmark.undecided_to_rate)):
            times += f" + {undecided:,} undecided"
        fate = "no meaning: nothing shown" if cell.not_applicable else f"{rows:,} rows{times}"
        show_text(f"{cell.benchmark.name}  {cell.scorer}  {cell.context}  {fate}")
    show_text(f"runs go under {work.place or output}/")
    first = next((cell for cell in cells if not cell.not_applicable), None)
    if first is None:
        return
    show_text(f"\nthe first prompt of {first.scorer} under {first.context}:\n")
    show_text(first_prompt(first.benchmark, first.scorer, first.context, work))


def say_what_shards_did(work: Work) -> None:
    """Print what shards did; raises `EndpointError` where rows of a shard were not answered."""
    if work.shard is None:
        if work.root is not None and (work.root / SHARDS).is_dir():
            _say("shards", sum(work.counts.values(), Counter()))
        return
    for folder, done in work.counts.items():
        _say(f"{folder}: {done['batches']:,} of {done['of_batches']:,} batches", done)
    if lost := sum(done["outages"] for done in work.counts.values()):
        raise EndpointError(f"{lost:,} rows were not answered; run the same command again")
    err.print("once all shards are done, the same command without --shard writes the runs")


def _say(what: str, done: Counter[str]) -> None:
    requests = f"{done['computed']:,} requests computed here, {done['recalled']:,} recalled"
    err.print(f"{what}: {requests}")


def _show_template(name: str | None) -> None:
    if name is not None:
        show_text(described(name))
        raise typer.Exit


def show_pair(
    benchmark: list[str] = flags.BENCHMARKS,
    scorer: list[str] = flags.SCORERS,
    *,
    pair: str | None = option(None, "Id of the pair; default the first."),
    context: list[str] = flags.CONTEXTS,
    loading: LoadingOfLayout,
    seed: int = flags.SEED,
    template_date: str | None = flags.TEMPLATE_DATE,
    chat_template: str | None = flags.CHAT_TEMPLATE,
    trust_remote_code: bool = flags.TRUST,
    template: str | None = option(
        None,
        "Print a prompt's template instead: judge, rating, rubric-judge, persona or plan.",
        callback=_show_template,
        is_eager=True,
        metavar="NAME",
    ),
) -> None:
    """Print what a scorer would see of one pair, under each context."""
    settings = flags.make_settings(
        seed=seed,
        chat_template=chat_template,
        template_date=template_date,
        trust_remote_code=trust_remote_code,
    )
    with Session(quoting=loading.quoting) as session:
        work = Work.of(session, settings)
        for pairs in (loading.load(name, seed) for name in benchmark):
            for spec, shown in product(scorer, context):
                text = first_prompt(pairs, spec, shown, work, pair)
                show_text(f"── {pairs.name} · {spec} · {shown}\n{text}")


def first_prompt(
    pairs: Dataset, scorer: str, context: str, work: Work, pair: str | None = None
) -> str:
    """Return what a scorer reads of one pair: its prompts where it has some, else the slate."""
    built, shown = work.scorer(scorer), work.context(context)
    adapted, seed = adapt_to(built, pairs, scorer), work.settings.seed
    user_keys = user_keys_fn(adapted, info_of(adapted, scorer), pairs, seed)
    rows = make_rows(pairs, shown, seed=seed, user_keys=user_keys)
    at = next((k for k in range(len(rows)) if pair is None or rows.id(k) == pair), None)
    if at is None:
        raise BenchmarkError(f"{pairs.name} has no pair {pair!r}")
    slate = rows.slate(at)  # this row alone: what a context shows may be costly
    prompts = getattr(adapted, "prompts", None)
    return _slate(slate) if prompts is None else "\n\n".join(prompts(slate))


def _slate(slate: Slate) -> str:
    *turns, question = slate.question
    lines = [f"the {turn.role} said: {turn.content}" for turn in turns]
    lines.append(f"question: {question.content}")
    lines += [f"shown {part.kind} {part.rank}: {part.text}" for part in slate.shown]
    lines += [f"response {k}: {text}" for k, text in enumerate(slate.candidates)]
    return "\n".join(lines)
