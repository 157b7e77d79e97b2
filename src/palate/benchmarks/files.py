"""Any file under the row contract is a benchmark."""

from __future__ import annotations

from pathlib import Path

from palate.benchmarks.benchmark import Benchmark, LoadOptions
from palate.benchmarks.dataset import Dataset
from palate.data import FORMATS, load_rows, stem
from palate.errors import BenchmarkError


def is_path(name: str) -> bool:
    """Tell a path from a benchmark's name: it has a separator or one of the known endings."""
    return "/" in name or name.endswith(FORMATS)


def file_benchmark(path: str) -> Benchmark:
    """Declare the benchmark that is this file, named after it.

    >>> file_benchmark("data/wine.jsonl.gz").name
    'wine'
    """

    def load(options: LoadOptions) -> Dataset:
        if options.source is not None or options.revision is not None:
            raise BenchmarkError(f"{path} is a file: it takes no --source or --revision")
        loaded = load_rows(
            path,
            columns=options.columns,
            skip_bad_rows=options.skip_bad_rows,
            max_line=options.max_line,
        )
        return Dataset(name, loaded.rows, None, loaded.bad_rows, loaded.unknown_columns)

    name = stem(Path(path).name)
    return Benchmark(name, f"rows of {Path(path).name}", load, licence="as the file's")
