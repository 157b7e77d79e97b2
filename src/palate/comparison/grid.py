"""Several scorers under several contexts on several benchmarks: one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from palate.benchmarks import Dataset, need_pairs
from palate.comparison.gains import IdentityParts, gains_of, identity_parts
from palate.contexts import need_same, refuse_other_draws, same_of, shows, with_controls
from palate.engines import RequestFile
from palate.errors import EndpointError, UsageError
from palate.evaluation import (
    USUAL,
    BoundScorer,
    HasStates,
    RecomputeOptions,
    Work,
    need_choices,
    not_applicable,
    refuse,
    run_or_shard,
    score_undecided,
    spec_of,
    with_states,
)
from palate.execution import build_runner
from palate.records import NO_STRANGER, Context, Judge, Record, Scorer, components_of, info_of
from palate.records.arguments import ObjectName, grouped
from palate.runs import Cost, Gain, Printed, RatingReport, Run, SubgroupReport, Summary, Tabular
from palate.specs import Spec
from palate.specs import load as load_registered


class PlannedCell(NamedTuple):
    """One place in the grid: canonical specs, and whether it has a meaning."""

    benchmark: Dataset
    scorer: str
    context: str
    not_applicable: bool
    draws: int = 1
    """How often a row is judged: once for each stranger that it is given."""
    calls: int = 0
    """How many responses, or orders of two, models are given at most."""
    asks: bool = False
    """Whether an endpoint computes it."""
    rate_undecided: bool = False
    """Whether undecided rows are scored for their ratings."""


POSTS = ("none", "profile:5", "stranger:5")
"""The contexts of a grid that names none, where users have posts."""


class Evaluation(Record):
    """Of `palate evaluate`."""

    runs: tuple[Summary, ...]
    gains: tuple[Gain, ...]
    groups: tuple[SubgroupReport, ...] = ()
    """Only with `--by`."""
    ratings: tuple[RatingReport, ...] = ()
    """Only with `--target rating`."""
    kinds: tuple[IdentityParts, ...] = ()
    """Only with `--kinds`, or contexts with `same`."""
    costs: tuple[Cost, ...] = ()
    """Only with `--users`, `--pressure` or `--agreed`."""


@dataclass(frozen=True)
class Grid(Tabular):
    """The runs of a grid, the cells without meaning, and what the contexts gained."""

    kind: ClassVar[str] = "evaluation"
    content_type = Evaluation
    runs: tuple[Run, ...]
    missing: tuple[tuple[str, str, str], ...]
    gains: tuple[Gain, ...]
    groups: tuple[SubgroupReport, ...] = ()
    """By groups of rows or users, where that was asked for."""
    ratings: tuple[RatingReport, ...] = ()
    """Against users' own ratings, where that was asked for."""
    costs: tuple[Cost, ...] = ()
    """Of users who are shown where nothing is personal, where that was asked for."""

    @property
    def results(self) -> tuple[Run, ...]:
        """Its runs."""
        return self.runs

    @property
    def kinds(self) -> tuple[IdentityParts, ...]:
        """What of the identity gains knows the person, and what the kind."""
        return tuple(identity_parts(self.runs, self.gains))

    @property
    def all_unscored(self) -> list[Run]:
        """The runs without any score; those that lack strangers alone only where no run has any."""
        nothing = [run for run in self.runs if run.summary.unscored == run.summary.n_pairs]
        if len(nothing) == len(self.runs):
            return nothing
        return [run for run in nothing if set(run.summary.unscored_reasons) != {NO_STRANGER}]

    def printed(self) -> Sequence[Printed]:
        """Return the first screen of each benchmark; `tables()` has every figure."""
        screens: Sequence[Printed] = load_registered("palate.screens", self.kind)(self)
        return screens

    def content(self) -> Evaluation:
        """Return all but the verdicts."""
        content = {name: getattr(self, name) for name in Evaluation.model_fields}
        return Evaluation(**content | {"runs": tuple(run.summary for run in self.runs)})


def plan_grid(
    benchmarks: Sequence[Dataset],
    scorers: Iterable[str],
    contexts: Iterable[str] | None,
    work: Work,
    *,
    rate_undecided: bool = False,
    kinds: str | None = None,
) -> list[PlannedCell]:
    """Return the cells in the order they are run: scorer by scorer, so that a model is loaded once.

    Every spec is built, and so checked, before anything is computed; with `kinds`, a trait, so are
    strangers who share it. Raises `UsageError` for two benchmarks of one name, for two contexts
    that differ in draws alone, and where no cell has a meaning.
    """
    build_runner(work.session.engine)
    names = [pairs.name for pairs in benchmarks]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two benchmarks are named {twice[0]}: rename a file, or run them apart")
    for pairs in benchmarks:
        need_pairs(pairs.rows, pairs.name)
        need_same(pairs, kinds or "")
    built = [work.context(text) for text in dict.fromkeys(contexts or POSTS)]
    distinct = list({context.spec: context for context in built}.values())
    refuse_other_draws(context.spec for context in distinct)
    named = dict.fromkeys(
        text if isinstance(text, ObjectName) else str(Spec.parse(text)) for text in scorers
    )
    texts = [spec for text in named for spec in with_states(text, work.scorer(text), kinds)]
    cells = []
    for text, *_ in grouped(texts, lambda text: spec_of(work.scorer(text), text)).values():
        scorer = work.scorer(text)
        for pairs in benchmarks:
            need_choices(scorer, pairs, text)
            wanted = distinct if contexts is not None else _usual(text, pairs, distinct, work)
            if kinds is not None:
                specs = with_controls(wanted, work.session, work.settings, kinds)
                wanted = [*map(work.context, specs)]
            cells += [_cell(pairs, text, scorer, c, rate_undecided) for c in wanted]
    if kinds and not any(same_of(text) for it in cells for text in (it.scorer, it.context)):
        lent = any(shows(cell.context) == "borrowed" for cell in cells)
        what = "nothing shows a user or has states; add -c profile:5"
        raise UsageError(f"--kinds {kinds}: {'lent users have no strangers' if lent else what}")
    if cells and all(cell.not_applicable for cell in cells):
        what = "has no meaning where nothing is shown; add -c profile:5"
        raise UsageError(f"{cells[0].scorer} {what}")
    return cells


def _usual(text: str, pairs: Dataset, posts: Sequence[Context], work: Work) -> list[Context]:
    """Return the contexts of a scorer for which none is named: those it was trained under first."""
    scorer = work.scorer(text)
    if trained := info_of(scorer, text).contexts:
        return [*map(work.context, with_controls(trained, work.session, work.settings))]
    if isinstance(scorer, HasStates) or not any(row.profile for row in pairs.rows):
        posts = [context for context in posts if context.empty]
    usual = [c for c in posts if not not_applicable(info_of(scorer, text), c)]
    if not usual:
        raise UsageError(
            f"{text} needs text of the user, and {pairs.name} holds no posts; --posts FILE adds "
            "what users wrote"
        )
    return usual


def _cell(
    pairs: Dataset, text: str, scorer: Scorer | Judge, context: Context, rate_undecided: bool
) -> PlannedCell:
    info = info_of(scorer, text)
    void = not_applicable(info, context)
    if not void:
        refuse(info, context, text)
    draws = getattr(context, "draws", 1) * getattr(scorer, "draws", 1)
    every = [info_of(part.scorer, text).details for part in components_of(scorer)]
    modelled = [details for details in every if {"content", "model"} & details.keys()]
    rows = len(pairs.rows)
    if rate_undecided and draws == 1 and not isinstance(scorer, Judge):
        rows += len(pairs.undecided_to_rate)
    calls = 0 if void else 2 * len(modelled) * draws * rows
    asks = any(details.get("base_url") for details in modelled)
    return PlannedCell(pairs, text, context.spec, void, draws, calls, asks, rate_undecided)


def run_grid(cells: Sequence[PlannedCell], work: Work, twice: RecomputeOptions = USUAL) -> Grid:
    """Run every cell that has a meaning; of a work's shard there are no runs.

    Raises `UsageError` for a share to ask again where no scorer asks an endpoint.
    """
    ask_again = twice.check().ask_again
    if ask_again and not any(cell.asks for cell in cells):
        raise UsageError(
            f"--ask-again {ask_again:g}: no scorer here asks an endpoint; rows of a model in this "
            "process come out the same"
        )
    runs: list[Run] = []
    for cell in (cell for cell in cells if not cell.not_applicable):
        what, rated = (cell.scorer, cell.benchmark, cell.context), cell.rate_undecided
        tell = work.start(f"{cell.scorer} · {cell.context}")
        run = run_or_shard(*what, work, twice, progress=tell, rate_undecided=rated)
        runs += [] if run is None else [run]
    missing = tuple((c.benchmark.name, c.scorer, c.context) for c in cells if c.not_applicable)
    return Grid(tuple(runs), missing, tuple(gains_of(runs, missing)))


def write_lacking(cells: Sequence[PlannedCell], work: Work, requests: RequestFile) -> int:
    """Write what neither the cache nor a run under the root holds; from then on nothing is sent.

    Returns how many cells ask more once these are answered: a model writes their contexts first.
    """
    assert work.session.replies is not None, "requests are what a cache lacks"
    work.session.replies.requests = requests
    waiting = 0
    with requests:
        for cell in (cell for cell in cells if not cell.not_applicable):
            progress = work.start(f"{cell.scorer} · {cell.context}")
            try:
                job = BoundScorer.of(cell.scorer, cell.benchmark, cell.context, work)
                computation = job.computation(job.rows)  # plans, so contexts' texts are written
                if cell.asks or "api:" in str([it.get("embedders") for it in computation.details]):
                    computation.run(None, work.root, progress)
                    if cell.rate_undecided:
                        score_undecided(job, None, progress)
            except EndpointError:
                if not requests.batches:
                    raise
                waiting += 1
    return waiting
