"""Benchmarks by name or path: any file under the row contract is one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable
from urllib.parse import unquote

from palate.benchmarks.dataset import Dataset, as_mirrored
from palate.benchmarks.selection import Days, agreements, mirrors, within
from palate.data import LoadOptions, download, is_readable, load_rows, one_data_set, stem
from palate.errors import BenchmarkError, SpecError, UsageError
from palate.records.arguments import checked
from palate.specs import Spec, load, registered

GROUP = "palate.benchmarks"
DATASET = "dataset"
"""The folder of a build that holds its rows."""
HUB = "hf://"
URL = re.compile(
    r"hf://datasets/(?P<repository>[^/@]+/(?P<name>[^/@]+))"
    r"(?:@(?P<revision>refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(?P<part>.+?))?/*"
)


@dataclass(frozen=True)
class Benchmark:
    """Name, source, licence and citation of a set of rows, and how to load it."""

    name: str
    description: str
    loader: Callable[[LoadOptions], Dataset]
    licence: str = "unknown"
    citation: str = ""
    subsets: tuple[str, ...] = ()

    def load(self, options: LoadOptions | None = None, *, subset: str | None = None) -> Dataset:
        """Load the rows; raises `BenchmarkError` for a subset that is not there."""
        options = options or LoadOptions()
        loaded = replace(
            as_mirrored(self.loader(options)),
            columns=options.columns,
            order_as_in_file=options.order_as_in_file,
        )
        if subset is None:
            return loaded
        kept = tuple(row for row in loaded.rows if row.subset == subset)
        if not kept:
            known = ", ".join(loaded.subsets)
            raise BenchmarkError(f"{self.name} has no subset {subset!r} (subsets: {known})")
        return as_mirrored(replace(loaded, name=f"{self.name}?subset={subset}", rows=kept))


@runtime_checkable
class Frame(Protocol):
    """A pandas or polars frame, or a pyarrow table."""

    @property
    def columns(self) -> Any:
        """Its columns, or their names."""


Data: TypeAlias = str | Path | Dataset | Benchmark | Frame | Iterable[Mapping[str, Any]]
"""A name, a path, or rows in any form."""


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
    """Declare the benchmark of a file or folder of shards, named after it, or after a build.

    >>> file_benchmark("data/wine.jsonl.gz").name, file_benchmark("builds/wine/dataset").name
    ('wine', 'wine')
    """

    def load(options: LoadOptions) -> Dataset:
        if options.source is not None or options.revision is not None:
            raise BenchmarkError(f"{path} is a file: it takes no --source or --revision")
        return Dataset(name, **load_rows(path, options, subset=name).fields(options))

    place = Path(path) if Path(path).name.strip(".") else Path(path).resolve()
    name = (place.resolve().parent.name or DATASET) if place.name == DATASET else stem(place.name)
    return Benchmark(name, f"rows of {place.name}", load, licence="as the file's")


@checked
def load_benchmark(
    name: str | Path,
    *,
    split: str | None = None,
    mirrored: str | None = None,
    agreed: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    since: str | None = None,
    until: str | None = None,
    options: LoadOptions | None = None,
    choices: Dataset | None = None,
) -> Dataset:
    """Load what an evaluation reads: a benchmark's split, or its mirrored couples only.

    With `agreed="only"` the rows of pairs on which all users agree, three or more; their `choices`
    from elsewhere are votes too. With `since` rows from that day or moment on, with `until` rows
    before it; past choices, those before `until`.

    >>> pairs = load_benchmark("tasting")
    >>> len(pairs.pairs), pairs.mirrored, len(pairs.couples)
    (96, True, 48)
    """
    for flag, given in (("mirrors", mirrored), ("agreed", agreed)):
        if given not in (None, "only"):
            raise UsageError(f"--{flag} {given}: the one choice is only")
    if mirrored and agreed:
        raise UsageError("--mirrors only, --agreed only: no couple agrees; leave one of them out")
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: expected 1 or more")
    name = str(name)
    Days.of(since, until)  # what cannot be read is refused before anything is loaded
    if is_path(name):
        benchmark, subset = find_benchmark(name), None
    else:
        spec = Spec.parse(name)
        spec.refuse_reference()
        spec.only({"subset"})
        benchmark, subset = find_benchmark(spec.kind), spec.options.get("subset")
    pairs = benchmark.load(options, subset=subset).select(split)
    if choices is not None:
        pairs = pairs.with_history(choices.rows, choices.votes)
    if mirrored == "only":
        pairs = mirrors(pairs, seed)
    if agreed == "only":
        pairs = agreements(pairs)
    of_file = is_path(name) and not name.startswith(HUB)
    place = Path(name).resolve().name if of_file else name
    more = ("--agreed", agreed) if agreed else ()
    command = ("-b", place, *(options or LoadOptions()).words(), *more)
    return replace(within(pairs, since, until).limit(limit, seed), command=command)


def dataset_of(data: Data, seed: int = 0) -> Dataset:
    """Return what an evaluation reads: what has this name or path, or the set's default split.

    A frame is checked as `Dataset.of` does.
    """
    if isinstance(data, str | Path):
        return load_benchmark(str(data), seed=seed)
    whole = unsplit(data)
    return whole if whole.split is not None else whole.select()


def unsplit(data: Data, options: LoadOptions | None = None) -> Dataset:
    """Return all rows of what has this name or path, of a declared benchmark, or of a frame."""
    if isinstance(data, str | Path):
        return load_benchmark(str(data), split="all", options=options)
    if isinstance(data, Benchmark):
        return data.load(options)
    return data if isinstance(data, Dataset) else Dataset.of(data)


def several_data(given: Data | Iterable[Data]) -> list[Data] | None:
    """Return data sets as a list; None for a single one, such as a frame or a list of rows."""
    if isinstance(given, str | Path | Frame) or not isinstance(given, Iterable):
        return None
    items: list[Any] = list(given)
    return None if items and isinstance(items[0], Mapping) else items


def hub_benchmark(url: str) -> Benchmark:
    """Declare the benchmark of this data set or part of it; raises `BenchmarkError` for no address.

    >>> hub_benchmark("hf://datasets/ORG/wine@v1/data/test").name
    'wine-data-test'
    """
    match = URL.fullmatch(url)
    if match is None:
        raise BenchmarkError(f"{url}: expected hf://datasets/ORG/NAME[@REVISION][/PATH]")
    repository, pinned, part = match["repository"], match["revision"], match["part"] or ""

    def load(options: LoadOptions) -> Dataset:
        if options.source is not None:
            raise BenchmarkError(f"{url} takes no --source; give the folder to -b instead")
        if pinned and options.revision is not None:
            raise BenchmarkError(f"{url} names a revision: it takes no --revision")
        paths, commit = download(
            repository,
            lambda names: one_data_set(names, url, part),
            unquote(pinned) if pinned else options.revision or "main",
            "without a network give a local copy, -b FOLDER",
        )
        loaded = load_rows(url, options, subset=name, files=paths)
        return Dataset(name, revision=commit, **loaded.fields(options))

    name = "-".join([match["name"], *(stem(part).split("/") if part else ())])
    return Benchmark(name, f"rows of {url}", load, licence="as the data set's")
