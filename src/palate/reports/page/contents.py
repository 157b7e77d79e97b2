"""What a page is made of: finished results, by benchmark, and nothing that a run does not hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palate.benchmarks import Benchmark, list_benchmarks
from palate.comparison import Grid, gains_of
from palate.comparison.compare import refuse_duplicates
from palate.comparison.findings import Finding, findings_of, oracle_runs
from palate.curves import LearningCurve
from palate.downstream import BestOfResult
from palate.reports.page.names import Names, names_of
from palate.reports.page.texts import Texts, read_texts
from palate.runs import Manifest, Result, Run, load_all, read_manifest
from palate.validity import Validity

KINDS = (Run.kind, BestOfResult.kind, Validity.kind, LearningCurve.kind)


@dataclass(frozen=True)
class BenchmarkRuns:
    """The runs of one benchmark, and what they show."""

    name: str
    runs: tuple[Run, ...]
    findings: tuple[Finding, ...]
    oracles: tuple[Run, ...]
    declared: Benchmark | None
    """None for a file of the reader's own."""

    @property
    def mirrored(self) -> bool:
        """True where the unit is the mirrored couple."""
        return all(run.verdicts.mirrored for run in self.runs)

    @property
    def main_findings(self) -> tuple[Finding, ...]:
        """The findings that are of no baseline."""
        return tuple(finding for finding in self.findings if not finding.baseline)

    @property
    def size(self) -> str:
        """How much there is of it."""
        largest = max((run.summary for run in self.runs), key=lambda summary: summary.n_pairs)
        n = largest.n_pairs
        what = f"{n // 2:,} mirrored couples" if self.mirrored else f"{n:,} pairs"
        return f"{what} of {largest.n_users:,} users"

    @property
    def best(self) -> Finding | None:
        """The scorer with the largest identity gain; else with the highest accuracy."""
        shown = self.main_findings or self.findings
        return max(shown, key=_rank, default=None)


@dataclass(frozen=True)
class Contents:
    """Everything that one page shows."""

    grid: Grid
    others: tuple[Result, ...]
    benchmarks: tuple[BenchmarkRuns, ...]
    manifests: Mapping[int, Manifest]
    """By the run's place in the grid."""
    names: Names
    texts: Texts


def gather(
    paths: Path | str | Iterable[Path | str],
    data: Iterable[str],
    *,
    private: bool,
    source: Path | None,
) -> Contents:
    """Read every finished result at or under these folders, and the texts of its rows.

    Raises `RunError` where there is none, `ComparisonError` where one scorer and context is there
    twice with other settings, and what `read_texts` does.
    """
    results = load_all(paths, KINDS)
    runs = [result for result in results if isinstance(result, Run)]
    runs.sort(key=lambda run: (run.summary.benchmark, run.summary.scorer, run.summary.context))
    refuse_duplicates(runs)
    others = [result for result in results if not isinstance(result, Run)]
    others.sort(key=lambda result: (KINDS.index(result.kind), result.content_hash))
    grid = Grid(tuple(runs), (), tuple(gains_of(runs)))
    manifests = {k: read_manifest(run.folder) for k, run in enumerate(runs) if run.folder}
    names = names_of(runs, _specs(runs, others, manifests), _hub_models(manifests))
    texts = read_texts(data, runs, manifests.values(), private=private, source=source)
    return Contents(grid, tuple(others), tuple(_by_benchmark(grid)), manifests, names, texts)


def _by_benchmark(grid: Grid) -> Iterable[BenchmarkRuns]:
    declared = {benchmark.name: benchmark for benchmark in list_benchmarks()}
    findings, oracles = findings_of(grid), oracle_runs(grid)
    for name in dict.fromkeys(run.summary.benchmark for run in grid.runs):
        yield BenchmarkRuns(
            name,
            tuple(run for run in grid.runs if run.summary.benchmark == name),
            tuple(finding for finding in findings if finding.benchmark == name),
            tuple(run for run in oracles if run.summary.benchmark == name),
            declared.get(name.partition("?")[0]),
        )


def _rank(finding: Finding) -> tuple[float, float]:
    gain = finding.identity.value if finding.identity else None
    return (-2.0 if gain is None else gain), finding.run.accuracy or 0.0


def _specs(
    runs: Iterable[Run], others: Iterable[Result], manifests: Mapping[int, Manifest]
) -> set[str]:
    specs = {text for run in runs for text in (run.summary.scorer, run.summary.context)}
    for manifest in manifests.values():
        specs |= {str(each["reference"]) for each in manifest.details if "reference" in each}
        specs |= {
            str(name) for pair in manifest.identity.get("columns", {}).items() for name in pair
        }
    for result in others:
        specs |= set(_named(result.document()))
    return specs


def _named(value: Any) -> Iterable[str]:
    # Names under these keys are specs, or a model's folder.
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("scorer", "context", "policy", "quality", "model") and isinstance(each, str):
                yield each
            yield from _named(each)
    elif isinstance(value, list):
        for each in value:
            yield from [each] if isinstance(each, str) and "/" in each else _named(each)


def _hub_models(manifests: Mapping[int, Manifest]) -> set[str]:
    references = [
        str(each.get("reference", ""))
        for manifest in manifests.values()
        for each in manifest.details
    ]
    hub = {text.removeprefix("hub:") for text in references if text.startswith("hub:")}
    return hub | {text.partition("@")[0] for text in hub}
