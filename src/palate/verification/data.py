"""The data of runs: what `-b` names, else the bundled benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from palate.benchmarks import Dataset, LoadOptions, find_benchmark, load_benchmark
from palate.benchmarks.registry import is_path
from palate.errors import BenchmarkError
from palate.seeding import canonical_json

BUNDLED = "tasting"
NAMED = ("split", "limit", "since", "until", "seed")
HOW_READ = (*NAMED, "columns", "order", "revision", "mirrors")
"""Fields of an identity that say how the data were read."""


class DataOfRuns:
    """One benchmark, loaded as the manifests of its runs say that it was read."""

    def __init__(self, named: str | None, options: LoadOptions) -> None:
        self._named, self._options = named, options
        self._path = named if named is not None and is_path(named) else None
        if self._path is not None and "://" not in self._path and not Path(self._path).exists():
            raise BenchmarkError(f"-b {named}: no such file or folder")
        self._name = find_benchmark((named or BUNDLED).partition("?")[0]).name
        self._loaded: dict[str, Dataset] = {}

    def of(self, identity: Mapping[str, Any], *, bad_rows: bool) -> Dataset | None:
        """Return the rows that a run judges; None where the data were not named.

        Raises `BenchmarkError` where another benchmark was named, and what loading raises.
        """
        full = identity["benchmark"]
        if full.partition("?")[0] != self._name:
            if self._named is None:
                return None
            raise BenchmarkError(f"judges {full!r}; -b {self._named} is {self._name!r}")
        how = {name: identity.get(name) for name in HOW_READ}
        key = canonical_json([full, how, bad_rows])
        if key not in self._loaded:
            given = self._options
            options = replace(
                given,
                columns=given.columns or identity["columns"],
                skip_bad_rows=given.skip_bad_rows or bad_rows,
                order_as_in_file=given.order_as_in_file or "order" in identity,
                revision=None if self._path or given.source else identity["revision"],
            )
            named: dict[str, Any] = {k: identity.get(k) for k in NAMED}
            self._loaded[key] = load_benchmark(
                self._path or full, mirrored=identity["mirrors"], options=options, **named
            )
        return self._loaded[key]
