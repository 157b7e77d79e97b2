"""A benchmark is a declaration that loads rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from palate.benchmarks.dataset import Dataset, as_mirrored
from palate.data import MAX_LINE, LayoutOptions, download, load_rows
from palate.errors import BenchmarkError


@dataclass(frozen=True)
class LoadOptions:
    """Where and how to load, as given on the command line."""

    source: Path | None = None
    """A local copy in the layout of the hub."""
    revision: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    skip_bad_rows: bool = False
    order_as_in_file: bool = False
    """Read no date: posts and past choices stand as in the file, oldest first."""
    max_line: int = MAX_LINE
    layout: LayoutOptions = field(default_factory=LayoutOptions)
    """How rows are to be understood that are not of the contract."""

    def files(self, repository: str, names: Sequence[str]) -> tuple[tuple[Path, ...], str | None]:
        """Return these files, of the local copy or of the hub, and the hub's commit.

        Raises `BenchmarkError` for a file that the copy lacks and for a revision of a copy.
        """
        if self.source is None:
            return download(repository, lambda every: names, self.revision or "main")
        if self.revision is not None:
            raise BenchmarkError(f"--source {self.source} is a copy: it takes no --revision")
        paths = tuple(self.source / name for name in names)
        if absent := [path for path in paths if not path.is_file()]:
            raise BenchmarkError(f"--source {self.source}: no file {absent[0]}")
        return paths, None


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


def read_dataset(
    path: str,
    name: str,
    options: LoadOptions,
    *,
    revision: str | None = None,
    files: Sequence[Path] | None = None,
) -> Dataset:
    """Read what lies at a path, or the `files` that it stands for, as the options say."""
    loaded = load_rows(
        path,
        subset=name,
        columns=options.columns,
        skip_bad_rows=options.skip_bad_rows,
        order_as_in_file=options.order_as_in_file,
        max_line=options.max_line,
        layout=options.layout,
        files=files,
    )
    reading = str(loaded.reading) if loaded.reading else None
    return Dataset(
        name, loaded.rows, revision, loaded.bad_rows, loaded.unknown_columns, reading=reading
    )
