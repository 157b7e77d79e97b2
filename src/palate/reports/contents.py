"""Contents of a page: finished results by benchmark, and their texts; one as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import (
    Benchmark,
    LoadOptions,
    find_benchmark,
    list_benchmarks,
    load_benchmark,
)
from palate.benchmarks.registry import is_path
from palate.comparison import MARGIN, Grid, gains_of
from palate.comparison.compare import groups_of_runs
from palate.comparison.findings import Finding, findings_of, oracle_runs
from palate.errors import DataError, UsageError
from palate.records import Post, PreferencePair, Settings
from palate.reports.names import Names, names_of, size_name
from palate.reports.parts import Picture, figure_of, look, save
from palate.retrieval import Ranked, build_ranking
from palate.runs import Manifest, Result, ResultSource, Run, load_all, read_manifest
from palate.session import Session
from palate.specs import load, registered

GROUP = "palate.sections"
"""By kind of result, what makes its part of a page."""
FIRST = ("forecast", "best-of-n", "decode", "policy-accuracy", "ppo", "validity", "learning-curve")
"""The order of kinds on a page; others follow by name."""
PartsOf = Callable[[Result, Names, int], Iterable[object]]


def parts_of(kind: str) -> PartsOf:
    """Return what makes a result's part of a page, given the page's names and its number."""
    made: PartsOf = load(GROUP, kind)
    return made


@dataclass(frozen=True)
class BenchmarkRuns:
    """The runs of one benchmark, and what they show; mirrored couples apart from whole sets."""

    name: str
    """Its heading, which tells mirrored couples where the whole set is there too."""
    grid: Grid
    findings: tuple[Finding, ...]
    oracles: tuple[Run, ...]
    declared: Benchmark | None
    """None for a file of the reader's own."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """Its runs, by scorer and context."""
        return self.grid.runs

    @property
    def data(self) -> str:
        """What `-b` names it."""
        return self.runs[0].summary.benchmark

    @property
    def mirrored(self) -> bool:
        """True where the unit is the mirrored couple."""
        return self.runs[0].verdicts.mirrored

    @property
    def main_findings(self) -> tuple[Finding, ...]:
        """The findings that are of no baseline."""
        return tuple(finding for finding in self.findings if not finding.baseline)

    @property
    def size(self) -> str:
        """How much there is of it."""
        return size_name(max((run.summary for run in self.runs), key=lambda s: s.n_pairs))

    @property
    def best(self) -> Finding | None:
        """The scorer with the largest identity gain; else with the highest accuracy."""
        shown = self.main_findings or self.findings
        return max(shown, key=_rank, default=None)


@dataclass(frozen=True)
class Contents:
    """Everything that one page shows."""

    others: tuple[Result, ...]
    benchmarks: tuple[BenchmarkRuns, ...]
    manifests: Mapping[Path, Manifest]
    """By the run's folder."""
    names: Names
    texts: Texts
    margin: float = MARGIN
    """Largest fall in accuracy that is harmless."""


def gather(
    paths: ResultSource | Iterable[ResultSource],
    data: Iterable[str],
    *,
    private: bool,
    reading: LoadOptions,
) -> Contents:
    """Read every finished result at or under these folders, and the texts of its rows.

    Raises `RunError` where there is none, `ComparisonError` where one scorer and context is there
    twice with other settings, and what `read_texts` does.
    """
    kinds = [Run.kind, *FIRST, *sorted({*registered(GROUP)} - {*FIRST})]
    results = load_all(paths, kinds)
    runs = [result for result in results if isinstance(result, Run)]
    runs.sort(key=lambda run: (run.summary.benchmark, run.verdicts.mirrored, *run.cell))
    others = [result for result in results if not isinstance(result, Run)]
    others.sort(key=lambda result: (kinds.index(result.kind), result.content_hash))
    manifests = {run.folder: read_manifest(run.folder) for run in runs if run.folder}
    details = [each for manifest in manifests.values() for each in manifest.details]
    references = {str(each["reference"]) for each in details if "reference" in each}
    hub = {text.removeprefix("hub:") for text in references if text.startswith("hub:")}
    hub |= {text.partition("@")[0] for text in hub}
    names = names_of(runs, _specs(runs, others, manifests) | references, hub)
    texts = read_texts(data, runs, manifests.values(), private=private, reading=reading)
    return Contents(tuple(others), tuple(_by_benchmark(runs)), manifests, names, texts)


def _by_benchmark(runs: Sequence[Run]) -> Iterable[BenchmarkRuns]:
    declared = {benchmark.name: benchmark for benchmark in list_benchmarks()}
    groups = groups_of_runs(runs)
    names = [some[0].summary.benchmark for some in groups.values()]
    for (group, some), data in zip(groups.items(), names, strict=True):
        grid = Grid(tuple(some), (), tuple(gains_of(some)))
        findings, oracles = tuple(findings_of(grid)), tuple(oracle_runs(grid))
        name, of = group if names.count(data) > 1 else data, data.partition("?")[0]
        yield BenchmarkRuns(name, grid, findings, oracles, declared.get(of))


def _rank(finding: Finding) -> tuple[float, float]:
    gain = finding.identity.value if finding.identity else None
    return (-2.0 if gain is None else gain), finding.run.accuracy or 0.0


def _specs(
    runs: Iterable[Run], others: Iterable[Result], manifests: Mapping[Path, Manifest]
) -> set[str]:
    columns = [each.identity.get("columns", {}) for each in manifests.values()]
    return {
        *(text for run in runs for text in run.cell[1:]),
        *(str(name) for by_name in columns for pair in by_name.items() for name in pair),
        *(name for result in others for name in _named(result.document())),
    }


def _named(value: Any) -> Iterable[str]:
    # Names under these keys are specs, or a model's folder.
    if isinstance(value, dict):
        for key, part in value.items():
            if key in ("scorer", "context", "policy", "quality", "model") and isinstance(part, str):
                yield part
            yield from _named(part)
    elif isinstance(value, list):
        for part in value:
            yield from [part] if isinstance(part, str) and "/" in part else _named(part)


POSTS = 3
Key = tuple[str, str]
"""A row by its id and content."""


@dataclass(frozen=True)
class Source:
    """Where texts come from, and what may be shown of it."""

    name: str
    """As it was asked for; never on the page."""
    shown: bool
    """False where the texts are the reader's own and were not asked for."""
    credit: str
    """Who made it, and under which licence."""


@dataclass(frozen=True)
class Texts:
    """The rows that were read."""

    rows: dict[Key, tuple[PreferencePair, Source]]
    private: bool
    """True with `--texts`: texts of own files, and ids."""

    def pair(self, key: Key) -> PreferencePair | None:
        """Return a row whose texts may be shown."""
        row, source = self.rows.get(key, (None, None))
        return row if row is not None and source is not None and source.shown else None

    def credit(self, key: Key) -> str:
        """Return who is to be named for a row's texts."""
        row, source = self.rows[key]
        return " ".join(part for part in (row.gold.attribution, source.credit) if part)

    def source(self, key: Key) -> str:
        """Return the data a row comes from, as `-b` names it."""
        return self.rows[key][1].name

    def advice(self, keys: Iterable[Key]) -> str:
        """Say what to pass, where none of these rows has a text to show; else nothing."""
        known = [self.rows[key][1] for key in keys if key in self.rows]
        if any(source.shown for source in known):
            return ""
        if known:
            return "These are texts of a file of your own: add --texts to show them here."
        return "To show texts here, name the benchmark or its file: palate report … -b DATA."


def read_texts(
    data: Iterable[str],
    runs: Iterable[Run],
    manifests: Iterable[Manifest],
    *,
    private: bool,
    reading: LoadOptions,
) -> Texts:
    """Load the data as told, every split, and keep the rows that a run has.

    A column that `reading` does not name is the runs', and so is the order of files without dates.

    Raises `DataError` for data of other rows.
    """
    wanted = {key for run in runs for key in run.verdicts.keys}
    identities = [manifest.identity for manifest in manifests]
    columns = {k: name for each in identities for k, name in each.get("columns", {}).items()}
    in_file_order = reading.order_as_in_file or any("order" in each for each in identities)
    rows: dict[Key, tuple[PreferencePair, Source]] = {}
    for name in data:
        options = replace(reading, skip_bad_rows=True, order_as_in_file=in_file_order)
        of_file = is_path(name)
        if of_file:
            options = replace(options, columns=columns | dict(reading.columns), source=None)
        loaded = load_benchmark(name, split="all", options=options)
        declared = None if of_file else find_benchmark(name.partition("?")[0])
        credit = f"{declared.citation} Licence: {declared.licence}.".strip() if declared else ""
        of = Source(name, private or not of_file, credit)
        here = {
            (row.id, row.content): (row, of)
            for row in loaded.rows
            if isinstance(row, PreferencePair) and (row.id, row.content) in wanted
        }
        if not here:
            raise DataError(
                "no row is a row of these runs (by id and content); name the data they were made "
                "on, unchanged",
                file=name,
            )
        rows |= here
    return Texts(rows, private)


def by_key(run: Run, column: NDArray[np.float64]) -> dict[Key, float]:
    """Return a column of a run's verdicts by row."""
    return dict(zip(run.verdicts.keys, column.tolist(), strict=True))


def nearest_posts(pair: PreferencePair) -> Ranked[Post]:
    """Return the user's posts, the nearest to the question first; where none is near, the last."""
    rank, _ = build_ranking("bm25", Session(), Settings())
    ranked = rank(pair.view.query, pair.profile)
    return ranked._replace(matched=ranked.matched and len(ranked.things) > 1)


def plot(result: Result, file: Path) -> None:
    """Draw a result into a PNG or SVG.

    Raises `UsageError` without matplotlib, for a result that has no drawing, or where the file
    cannot be written.
    """
    parts = parts_of(result.kind)(result, Names({}, {}, {}), 0)
    drawn = [part for part in parts if isinstance(part, Picture) and part.draw is not None]
    if not drawn:
        raise UsageError(f"--plot: this {result.kind} has too little for a drawing")
    figure = figure_of([each.draw for each in drawn if each.draw], [each.title for each in drawn])
    with look():
        save(figure, file)
