"""Benchmarks by name or path: any file under the row contract is one."""

from __future__ import annotations

from pathlib import Path

from palate.benchmarks.benchmark import Benchmark, LoadOptions, read_dataset
from palate.benchmarks.dataset import Dataset
from palate.benchmarks.hub_files import HUB, hub_benchmark
from palate.benchmarks.mirrors import mirrors
from palate.benchmarks.window import Days, within
from palate.data import is_readable, stem
from palate.errors import BenchmarkError, SpecError, UsageError
from palate.specs import Spec, load, registered

GROUP = "palate.benchmarks"
DATASET = "dataset"
"""The folder of a build that holds its rows."""


def list_benchmarks() -> list[Benchmark]:
    """Return every registered benchmark, palate's and those of installed packages."""
    return [point.load() for point in registered(GROUP).values()]


def find_benchmark(name: str) -> Benchmark:
    """Return the benchmark of this name, or the one that lies at this path or address."""
    if name.startswith(HUB):
        return hub_benchmark(name)
    if is_path(name):
        return file_benchmark(name)
    found = load(GROUP, name)
    if not isinstance(found, Benchmark):
        raise SpecError(f"{GROUP}: {name!r} is not a Benchmark")
    return found


def is_path(name: str) -> bool:
    """Tell a path from a benchmark's name: a separator, a known ending, or a file with a dot."""
    return "/" in name or is_readable(name) or ("." in name and Path(name).is_file())


def file_benchmark(path: str) -> Benchmark:
    """Declare the benchmark that is this file, or folder of shards, named after it.

    The `dataset` of a build is named after the build.

    >>> file_benchmark("data/wine.jsonl.gz").name, file_benchmark("builds/wine/dataset").name
    ('wine', 'wine')
    """

    def load(options: LoadOptions) -> Dataset:
        if options.source is not None or options.revision is not None:
            raise BenchmarkError(f"{path} is a file: it takes no --source or --revision")
        return read_dataset(path, name, options)

    place = Path(path) if Path(path).name.strip(".") else Path(path).resolve()
    name = (place.resolve().parent.name or DATASET) if place.name == DATASET else stem(place.name)
    return Benchmark(name, f"rows of {place.name}", load, licence="as the file's")


def load_benchmark(
    name: str,
    *,
    split: str | None = None,
    mirrored: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    since: str | None = None,
    until: str | None = None,
    options: LoadOptions | None = None,
) -> Dataset:
    """Load what an evaluation reads: a benchmark's split, whole or its mirrored couples only.

    With `since` rows from that day or moment on, with `until` rows before it; past choices, those
    before `until`.

    >>> pairs = load_benchmark("tasting")
    >>> len(pairs.pairs), pairs.mirrored, len(pairs.couples)
    (96, True, 48)
    """
    if mirrored not in (None, "only"):
        raise UsageError(f"--mirrors {mirrored}: the one choice is only")
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: expected 1 or more")
    Days.of(since, until)  # what cannot be read is refused before anything is loaded
    if is_path(name):
        benchmark, subset = find_benchmark(name), None
    else:
        spec = Spec.parse(name)
        spec.refuse_reference()
        spec.only({"subset"})
        benchmark, subset = find_benchmark(spec.kind), spec.options.get("subset")
    pairs = benchmark.load(options, subset=subset).select(split)
    if mirrored == "only":
        pairs = mirrors(pairs, seed)
    return within(pairs, since, until).limit(limit, seed)


def dataset_of(benchmark: str | Path | Dataset, seed: int = 0) -> Dataset:
    """Return what an evaluation reads: what has this name or path, or the set's default split."""
    if not isinstance(benchmark, Dataset):
        return load_benchmark(str(benchmark), seed=seed)
    return benchmark if benchmark.split is not None else benchmark.select()
