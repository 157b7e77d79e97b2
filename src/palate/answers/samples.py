"""N answers to every row of a benchmark, as a record and as a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from palate.answers.policies import Sample
from palate.benchmarks import Dataset
from palate.data import read_file
from palate.data.rows import read_identifier
from palate.errors import DataError, UsageError, writing
from palate.files import write_whole
from palate.seeding import canonical_json, digest


@dataclass(frozen=True)
class Samples:
    """N answers to each row of a benchmark."""

    policy: str
    """Canonical spec, or the name of the file they came from."""
    rows: tuple[str, ...]
    """Ids of the rows, in their order."""
    of_row: tuple[tuple[Sample, ...], ...]
    """N answers to each; rows that ask the same share them."""
    left_out: frozenset[int] = frozenset()
    """Rows that nothing was written for; their answers are empty, and are not rated."""

    @property
    def n(self) -> int:
        """Answers to a row."""
        return len(self.of_row[0]) if self.of_row else 0

    @cached_property
    def content(self) -> str:
        """Hash of all texts, in order."""
        return digest("samples", self.rows, [[one.text for one in own] for own in self.of_row])

    @property
    def texts(self) -> list[tuple[str, ...]]:
        """The different texts of each row that are not empty, in the order they were drawn."""
        return [
            tuple(dict.fromkeys(one.text for one in of_row if one.text.strip()))
            for of_row in self.of_row
        ]

    @property
    def counts(self) -> dict[str, int]:
        """How many there are in all, empty, cut off, and how many repeat another of their row."""
        every = [one for own in self.of_row for one in own]
        return {
            "samples": len(every),
            "empty": sum(not one.text.strip() for one in every),
            "cut_off": sum(one.cut_off for one in every),
            "repeated": sum(len(own) - len({one.text for one in own}) for own in self.of_row),
        }

    @property
    def nothing_to_rank(self) -> str | None:
        """Why no scorer could prefer one answer to another; None where one could."""
        if not any(one.text.strip() for own in self.of_row for one in own):
            return "all answers are empty, so there is nothing to rank"
        if self.n > 1 and all(len({one.text for one in own}) == 1 for own in self.of_row):
            return f"every question got one text {self.n} times, so there is nothing to rank"
        return None

    def first(self, n: int) -> Samples:
        """Return the first n of every row; raises `DataError` where there are fewer."""
        if n > self.n:
            raise DataError(f"{self.policy}: {self.n} samples a row; {n} were asked for")
        return replace(self, of_row=tuple(of_row[:n] for of_row in self.of_row))

    def save(self, path: Path) -> None:
        """Write one JSON line per row; raises `ResourceError` where it cannot be written."""
        lines = (
            canonical_json({"id": row, "samples": [one.document() for one in own]})
            for row, own in zip(self.rows, self.of_row, strict=True)
        )
        with writing(path):
            write_whole(path, (f"{line}\n" for line in lines), "surrogatepass")


def check_number(n: int) -> None:
    """Raise `UsageError` unless so many answers to a question can be asked for."""
    if n < 1:
        raise UsageError(f"-n {n}: expected 1 or more answers to a question")


def load_samples(path: Path, pairs: Dataset, n: int | None = None) -> Samples:
    """Read samples that something else drew: JSON lines `{"id": …, "samples": [text, …]}`.

    They may be gzipped (`.gz`), and ids are read as in the data. A sample is a text, or an object
    with `text` and, where known, `cut_off`. Every row of the benchmark must be there; `n` takes the
    first n of each row, else all rows must have equally many.

    Raises `DataError`, with file and line, for what cannot be read, an unknown or repeated id, a
    row without samples, or too few of them; and where no scorer could prefer any of them.
    `UsageError` for an n below 1.
    """
    if n is not None:
        check_number(n)
    there: dict[str, tuple[Sample, ...]] = {}
    rows = [row.id for row in pairs.rows]
    expected, others = set(rows), {row.id for row in pairs.everyone}
    for line, row in read_file(path, structured={"samples"}, errors="surrogatepass"):
        where = f"{path}:{line}"
        name, samples = _row(row, path, line)
        if name not in expected and name in others:
            continue  # a row that a limit leaves out
        if name not in expected:
            raise DataError(
                f"{where}: id {name!r} is no row of {pairs.name}; take the line out, or give the "
                "benchmark that these samples answer (--limit and --split may leave rows of it out)"
            )
        if name in there:
            raise DataError(f"{where}: id {name!r} is there twice")
        there[name] = samples
    missing = [name for name in rows if name not in there]
    if missing:
        raise DataError(
            f"{path}: {len(missing)} of {len(rows)} rows of {pairs.name} have no samples, "
            f"{missing[0]!r} for one"
        )
    fewest = min(rows, key=lambda name: len(there[name]))
    needed = n or max(len(samples) for samples in there.values())
    if len(there[fewest]) < needed:
        raise DataError(
            f"{path}: row {fewest!r} has {len(there[fewest])} samples; {needed} are needed (-n "
            "takes the first so many)"
        )
    found = Samples(path.name, tuple(rows), tuple(there[name][:needed] for name in rows))
    if found.nothing_to_rank:
        raise DataError(f"{path}: {found.nothing_to_rank}")
    return found


def _row(row: Any, path: Path, line: int) -> tuple[str, tuple[Sample, ...]]:
    where = f"{path}:{line}"
    if isinstance(row, DataError):
        raise row
    if not isinstance(row, dict) or row.get("id") is None:
        raise DataError(f'{where}: expected {{"id": …, "samples": [text, …]}}')
    try:
        name = read_identifier(row["id"])
    except DataError as error:
        raise DataError(error.problem, file=str(path), line=line, field=error.field) from None
    listed = row.get("samples")
    if not isinstance(listed, list) or not listed:
        raise DataError(f"{where}: samples: expected a list of one text or more")
    return name, tuple(_sample(one, where) for one in listed)


def _sample(said: Any, where: str) -> Sample:
    if isinstance(said, str):
        return Sample(said)
    if isinstance(said, dict) and isinstance(said.get("text"), str):
        return Sample(said["text"], bool(said.get("cut_off", False)))
    raise DataError(f"{where}: a sample is a text, or an object with a text")
