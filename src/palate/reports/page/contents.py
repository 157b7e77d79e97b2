"""The contents of a page: finished results by benchmark, and nothing that a run does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palate.benchmarks import Benchmark, LoadOptions, list_benchmarks
from palate.comparison import Grid, gains_of
from palate.comparison.duplicates import group_of, refuse_duplicates
from palate.comparison.findings import Finding, findings_of, oracle_runs
from palate.reports.names import size_name
from palate.reports.page.names import Names, names_of
from palate.reports.page.texts import Texts, read_texts
from palate.runs import Manifest, Result, Run, load_all, read_manifest
from palate.specs import load, registered

GROUP = "palate.sections"
"""By kind of result, what makes its part of a page."""
FIRST = ("best-of-n", "decode", "policy-accuracy", "ppo", "validity", "learning-curve")
"""The order of kinds on a page; others follow by name."""
PartsOf = Callable[[Result, Names, int], Iterable[object]]


def parts_of(kind: str) -> PartsOf:
    """Return what makes a result's part of a page, given the page's names and its number."""
    made: PartsOf = load(GROUP, kind)
    return made


def shown_kinds() -> list[str]:
    """Return the kinds of results that a page shows beside runs, in their order."""
    rest = sorted({*registered(GROUP)} - {*FIRST})
    return [*FIRST, *rest]


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


def gather(
    paths: Path | str | Iterable[Path | str],
    data: Iterable[str],
    *,
    private: bool,
    reading: LoadOptions,
) -> Contents:
    """Read every finished result at or under these folders, and the texts of its rows.

    Raises `RunError` where there is none, `ComparisonError` where one scorer and context is there
    twice with other settings, and what `read_texts` does.
    """
    kinds = [Run.kind, *shown_kinds()]
    results = load_all(paths, kinds)
    runs = [result for result in results if isinstance(result, Run)]
    runs.sort(key=lambda run: (group_of(run), run.summary.scorer, run.summary.context))
    refuse_duplicates(runs)
    others = [result for result in results if not isinstance(result, Run)]
    others.sort(key=lambda result: (kinds.index(result.kind), result.content_hash))
    manifests = {run.folder: read_manifest(run.folder) for run in runs if run.folder}
    details = [each for manifest in manifests.values() for each in manifest.details]
    references = {str(each["reference"]) for each in details if "reference" in each}
    specs = _specs(runs, others, manifests) | references
    names = names_of(runs, specs, _hub_models(references))
    texts = read_texts(data, runs, manifests.values(), private=private, reading=reading)
    return Contents(tuple(others), tuple(_by_benchmark(runs)), manifests, names, texts)


def _by_benchmark(runs: Sequence[Run]) -> Iterable[BenchmarkRuns]:
    declared = {benchmark.name: benchmark for benchmark in list_benchmarks()}
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(group_of(run), []).append(run)
    for group, some in groups.items():
        data = some[0].summary.benchmark
        grid = Grid(tuple(some), (), tuple(gains_of(some)))
        yield BenchmarkRuns(
            group if data in groups else data,
            grid,
            tuple(findings_of(grid)),
            tuple(oracle_runs(grid)),
            declared.get(data.partition("?")[0]),
        )


def _rank(finding: Finding) -> tuple[float, float]:
    gain = finding.identity.value if finding.identity else None
    return (-2.0 if gain is None else gain), finding.run.accuracy or 0.0


def _specs(
    runs: Iterable[Run], others: Iterable[Result], manifests: Mapping[Path, Manifest]
) -> set[str]:
    specs = {text for run in runs for text in (run.summary.scorer, run.summary.context)}
    for manifest in manifests.values():
        specs |= {
            str(name) for pair in manifest.identity.get("columns", {}).items() for name in pair
        }
    for result in others:
        specs |= set(_named(result.document()))
    return specs


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


def _hub_models(references: Iterable[str]) -> set[str]:
    hub = {text.removeprefix("hub:") for text in references if text.startswith("hub:")}
    return hub | {text.partition("@")[0] for text in hub}
