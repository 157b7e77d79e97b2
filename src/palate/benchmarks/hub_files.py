"""A data set on the hub as a benchmark: `hf://datasets/ORG/NAME[@REVISION][/PATH]`."""

from __future__ import annotations

import re
from urllib.parse import unquote

from palate.benchmarks.benchmark import Benchmark, LoadOptions, read_dataset
from palate.benchmarks.dataset import Dataset
from palate.data import download, one_data_set, stem
from palate.errors import BenchmarkError

HUB = "hf://"
URL = re.compile(
    r"hf://datasets/(?P<repository>[^/@]+/(?P<name>[^/@]+))"
    r"(?:@(?P<revision>refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(?P<part>.+?))?/*"
)


def hub_benchmark(url: str) -> Benchmark:
    """Declare the benchmark that is this data set, or the part of it that the path names.

    Raises `BenchmarkError` for what is no such address.

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
        return read_dataset(url, name, options, revision=commit, files=paths)

    name = "-".join([match["name"], *(stem(part).split("/") if part else ())])
    return Benchmark(name, f"rows of {url}", load, licence="as the data set's")
