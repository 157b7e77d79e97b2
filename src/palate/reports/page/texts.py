"""Texts of rows, where data are given and their content is the run's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import LoadOptions, find_benchmark, load_benchmark
from palate.benchmarks.registry import is_path
from palate.errors import DataError
from palate.records import PreferencePair, Settings
from palate.retrieval import build_ranking
from palate.runs import Manifest, Run
from palate.session import Session

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
    columns: dict[str, str] = {}
    in_file_order = reading.order_as_in_file
    for manifest in manifests:
        columns |= manifest.identity.get("columns", {})
        in_file_order |= "order" in manifest.identity
    rows: dict[Key, tuple[PreferencePair, Source]] = {}
    for name in data:
        options = replace(reading, skip_bad_rows=True, order_as_in_file=in_file_order)
        of_file = is_path(name)
        if of_file:
            options = replace(options, columns=columns | dict(reading.columns), source=None)
        loaded = load_benchmark(name, split="all", options=options)
        told = None if of_file else find_benchmark(name.partition("?")[0])
        credit = f"{told.citation} Licence: {told.licence}.".strip() if told else ""
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


def nearest_posts(pair: PreferencePair) -> list[str]:
    """Return up to three posts of the user's, the nearest to the question first."""
    rank, _ = build_ranking("bm25", Session(), Settings())
    return [post.text for post in rank(pair.view.query, pair.profile).things[:POSTS]]
