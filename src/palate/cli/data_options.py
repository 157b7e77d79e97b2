"""Options of what is read, as records of which a command takes the one that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from palate.benchmarks import Dataset, LoadOptions, load_benchmark
from palate.cli import options as flags
from palate.data import LayoutOptions, parse_columns, parse_votes


@dataclass(frozen=True)
class RowReading:
    """How the rows of a file are read."""

    columns: flags.Map = None
    skip_bad_rows: flags.SkipBadRows = False
    order_as_in_file: flags.OrderAsInFile = False
    layout: flags.Layout = None

    def options(self) -> LoadOptions:
        """Return what loading is told; raises `UsageError` for a `--map` that cannot be read."""
        columns = parse_columns(self.columns or [])
        return LoadOptions(
            columns=columns,
            skip_bad_rows=self.skip_bad_rows,
            order_as_in_file=self.order_as_in_file,
            layout=LayoutOptions(self.layout),
        )


@dataclass(frozen=True)
class DatedReading(RowReading):
    """Of which days rows are read."""

    since: flags.Since = None
    until: flags.Until = None


@dataclass(frozen=True)
class LayoutReading(RowReading):
    """What is said of a layout that its columns do not tell."""

    vote: flags.Vote = None
    pairs: flags.Pairs = "all"
    posts: flags.Posts = None
    max_line: flags.MaxLine = 32

    def options(self) -> LoadOptions:
        """Return what loading is told; raises `UsageError` for a vote that cannot be read."""
        given = super().options()
        votes = parse_votes(self.vote or [])
        layout = LayoutOptions(self.layout, self.pairs, votes, self.posts)
        return replace(given, layout=layout, max_line=int(self.max_line * 2**20))


@dataclass(frozen=True)
class DatedLayoutReading(LayoutReading, DatedReading):
    """Rows of any layout and of some days."""


@dataclass(frozen=True)
class Loading(DatedReading):
    """Which rows of a benchmark are read, and from where."""

    split: flags.Split = None
    mirrors: flags.Mirrors = None
    source: flags.Source = None
    revision: flags.Revision = None

    def options(self) -> LoadOptions:
        """Return what loading is told."""
        return replace(super().options(), source=self.source, revision=self.revision)

    def load(self, name: str, seed: int, limit: int | None = None) -> Dataset:
        """Load what is asked for of one benchmark."""
        return load_benchmark(
            name,
            split=self.split,
            mirrored=self.mirrors,
            limit=limit,
            seed=seed,
            since=self.since,
            until=self.until,
            options=self.options(),
        )


@dataclass(frozen=True)
class LoadingOfLayout(LayoutReading, Loading):
    """Which rows of any layout are read, and all that is said of it."""


@dataclass(frozen=True)
class LoadingWithChoices(Loading):
    """A draw of the rows, and users' earlier choices from a file of their own."""

    limit: flags.Limit = None
    choices: flags.Choices = None

    def load_all(self, names: Sequence[str], seed: int) -> list[Dataset]:
        """Load every benchmark, with the earlier choices of its users."""
        loaded = [self.load(name, seed, self.limit) for name in dict.fromkeys(names)]
        if self.choices is None:
            return loaded
        options = replace(self.options(), source=None)
        past = load_benchmark(self.choices, split="all", until=self.until, options=options).pairs
        return [pairs.with_history(past) for pairs in loaded]


@dataclass(frozen=True)
class LoadingAnyLayout(LayoutReading, LoadingWithChoices):
    """Rows of any layout, and all that is said of it."""
