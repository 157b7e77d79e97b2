"""Finished work on disk: a manifest, rows without texts, and a summary."""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar

from palate.errors import RunError, SpecError, UsageError, first_line, needing, writing
from palate.files import write_json, write_whole
from palate.records import Record, problem_of
from palate.records.arguments import checked, listed
from palate.runs.manifest import (
    ROWS,
    SCHEMA,
    SUMMARY,
    Manifest,
    is_foreign,
    read_manifest,
    result_folders,
)
from palate.specs import load as load_registered

LOG = logging.getLogger("palate")
SUMS = "sums.json"
"""Hashes of a result's rows and summary, so that an edited file is not believed."""
KINDS, TABLES = "palate.results", "palate.tables"
R = TypeVar("R", bound=Record)
S = TypeVar("S", bound=Record)


class Printed(Protocol):
    """What `print` and a notebook show of a result."""

    def text(self, width: int) -> str:
        """Return it for a terminal of so many columns."""

    def html(self) -> str:
        """Return it as HTML."""


class ResultTable(Printed, Protocol):
    """A table of a result, for documents and programs too."""

    def latex(self) -> str:
        """Return it as LaTeX."""

    def columns_of_values(self) -> dict[str, list[object]]:
        """Return its cells by column, numbers as numbers."""


class Tabular(ABC):
    """What prints, tabulates and exports itself; the group `palate.tables` says by kind how."""

    kind: ClassVar[str]
    content_type: ClassVar[type[Record]]
    """What its JSON document holds beside `schema` and `kind`."""

    @abstractmethod
    def content(self) -> Record:
        """Return what its JSON document holds."""

    @property
    def results(self) -> Sequence[Result]:
        """The finished results that it holds; raises `UsageError` where it holds none."""
        raise UsageError(f"a {type(self).__name__} holds no results; expected runs or their folder")

    def document(self) -> dict[str, Any]:
        """Return the JSON document that `--format json` prints."""
        return as_document(self.kind, self.content().model_dump(mode="json"))

    def tables(self) -> Sequence[ResultTable]:
        """Return it as tables."""
        tables: Sequence[ResultTable] = load_registered(TABLES, self.kind)(self)
        return tables

    def printed(self) -> Sequence[Printed]:
        """Return what `print` and a notebook show: its tables."""
        return self.tables()

    def __str__(self) -> str:
        width = get_terminal_size((100, 24)).columns
        return "\n\n".join(table.text(width).rstrip("\n") for table in self.printed())

    def _repr_html_(self) -> str:
        return "\n".join(table.html() for table in self.printed())

    def to_json(self) -> str:
        """Return the document as text."""
        return json.dumps(self.document(), indent=1, ensure_ascii=False, allow_nan=False)

    def to_latex(self) -> str:
        """Return the tables as LaTeX, for `booktabs`."""
        return "\n".join(table.latex() for table in self.tables())

    def to_arrow(self) -> Any:
        """Return the first table as a `pyarrow.Table`; raises `UsageError` without pyarrow."""
        return _pyarrow().table(self.tables()[0].columns_of_values())


class Result(Tabular):
    """Finished work with rows, in memory or on disk; its document is `summary.json`.

    A kind is a subclass, registered under its name in the entry point group `palate.results`.
    """

    row_type: ClassVar[type[Record]]
    """What a line of `rows.jsonl` holds."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Files of rows that it may have beside `rows.jsonl`."""
    summary: Record
    folder: Path | None
    """Where it lies on disk; None for one that is in memory alone."""

    @classmethod
    @abstractmethod
    def read(cls, folder: Path) -> Self:
        """Read a finished result of this kind; raises `RunError` where that cannot be."""

    @property
    def results(self) -> Sequence[Result]:
        """Itself."""
        return (self,)

    def content(self) -> Record:
        """Return the summary."""
        return self.summary

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """Yield every row as one line of JSON."""

    @property
    def content_hash(self) -> str:
        """SHA-256 of its `summary.json`: how a manifest names it among the inputs."""
        return sha256(f"{self.to_json()}\n".encode()).hexdigest()

    @property
    def input_name(self) -> str:
        """What a manifest calls it among the inputs: its folder's end, or its content in memory."""
        if self.folder is None:
            return f"{self.kind} {self.content_hash[:8]}"
        return "/".join(self.folder.resolve().parts[-3:])

    def save(self) -> None:
        """Write rows and summary into the result's folder, each whole or not at all."""
        if self.folder is None:
            raise UsageError(f"{self.kind}: it is in memory alone, so there is nowhere to save it")
        with writing(self.folder, RunError):
            write_whole(self.folder / ROWS, (f"{line}\n" for line in self.lines()))
            write_json(self.folder / SUMMARY, self.document())
            self.write_sums()

    def write_sums(self) -> None:
        """Write the hashes that hold a result's rows and summary together."""
        if self.folder is not None:
            write_json(self.folder / SUMS, _sums(self.folder, (ROWS, SUMMARY, *self.beside)))

    def to_arrow(self) -> Any:
        """Return the rows as a `pyarrow.Table`; raises `UsageError` without pyarrow."""
        return arrow_of([json.loads(line) for line in self.lines()])


ResultSource: TypeAlias = Tabular | Path | str
"""A result, a grid of them, or a folder at or under which they lie."""


@dataclass(frozen=True)
class RecordResult(Result, Generic[S, R]):
    """A result whose rows are few enough to be held as records."""

    summary: S
    rows: tuple[R, ...]
    folder: Path | None = None

    def lines(self) -> Iterator[str]:
        """Yield every row as one line of JSON."""
        return (row.model_dump_json() for row in self.rows)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a finished result; raises `RunError` where there is none."""
        summary = read_content(folder, cls.kind, cls.content_type)
        return cls(summary, tuple(each_row(folder, cls.row_type)), folder)  # type: ignore[arg-type]

    def saved(self, root: Path | str | None, manifest: Manifest) -> Self:
        """Return it written under a root, in its manifest's folder; without a root, as it is."""
        if root is None:
            return self
        result = replace(self, folder=manifest.renew(Path(root)))
        result.save()
        return result


def arrow_of(records: list[dict[str, Any]]) -> Any:
    """Return records as a `pyarrow.Table`; raises `UsageError` without pyarrow."""
    return _pyarrow().Table.from_pylist(records)


def _pyarrow() -> Any:
    with needing("to_arrow needs", "hub"):
        import pyarrow
    return pyarrow


def as_document(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON document of palate: its format, its kind, its content."""
    return {"schema": SCHEMA, "kind": kind, **content}


def read_content(folder: Path, kind: str, record: type[R]) -> R:
    """Return a `summary.json` as a record; raises `RunError` for another kind, or unfinished."""
    there = read_manifest(folder).kind
    if there != kind:
        raise RunError(f"{folder}: holds {there!r}; expected {kind!r}")
    if not (folder / SUMMARY).is_file():
        raise RunError(f"{folder}: not finished; run the command that began it again")
    try:
        content: dict[str, Any] = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        written = content.pop("schema"), content.pop("kind")
        if written != (SCHEMA, kind):
            raise ValueError(f"schema {written[0]}, kind {written[1]}")
        return record.model_validate(content)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunError(f"{folder}: no readable summary.json ({problem_of(error)})") from error


def each_row(folder: Path, record: type[R], name: str = ROWS) -> Iterator[R]:
    """Yield a result's rows as records; raises `RunError` for what cannot be read."""
    try:
        with (folder / name).open(encoding="utf-8", newline="\n") as file:
            yield from map(record.model_validate_json, file)
    except (OSError, ValueError) as error:
        raise RunError(f"{folder}: no readable {name} ({problem_of(error)})") from error


def _sums(folder: Path, names: Sequence[str]) -> dict[str, str]:
    sums = {}
    for path in (folder / name for name in names):
        if path.is_file():
            hashed = sha256()
            with path.open("rb") as file:
                for line in file:
                    hashed.update(line.rstrip(b"\r\n") + b"\n")  # git may write ends of lines anew
            sums[path.name] = hashed.hexdigest()
    return sums


def check_sums(folder: Path, kind: type[Result]) -> bool:
    """Tell whether hashes hold a result's files together; those of earlier versions have none.

    Raises `RunError` where a file is not as it was, and for a result of this version without any.
    """
    if not (folder / SUMS).is_file():
        if "account" in read_manifest(folder).model_fields_set:
            raise RunError(
                f"{folder}: {SUMS} is gone, so rows and summary may have been edited; run the "
                "command that made it again (palate verify checks runs)"
            )
        return False
    try:
        written = dict(json.loads((folder / SUMS).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{folder}: no readable {SUMS} ({first_line(error)})") from error
    here = _sums(folder, (ROWS, SUMMARY, *kind.beside))
    if changed := [name for name in {**written, **here} if here.get(name) != written.get(name)]:
        raise RunError(
            f"{folder}: {', '.join(changed)} changed after the result was made, so rows and "
            "summary may differ; run the command that made it again (palate verify checks runs)"
        )
    return True


@checked
def load(path: Path | str) -> Result:
    """Return the finished result that lies in a folder, as its kind.

    Raises `RunError` for a folder that holds none: foreign, unfinished, of an older or a newer
    format, or of a kind that nothing installed reads; and for files that were changed since.
    """
    return _load_each([Path(path)])[0]


def _load_each(folders: Sequence[Path]) -> list[Result]:
    results: list[Result] = []
    unheld: list[Path] = []
    for folder in folders:
        kind = read_manifest(folder).kind
        try:
            reader: type[Result] = load_registered(KINDS, kind)
        except SpecError as error:
            raise RunError(f"{folder}: {error}") from error
        results.append(reader.read(folder))
        if not check_sums(folder, reader):
            unheld.append(folder)
    if unheld:
        more = f" and {len(unheld) - 1:,} more" if len(unheld) > 1 else ""
        LOG.warning(
            "%s%s: of an earlier version, without %s: an edit is not seen", unheld[0], more, SUMS
        )
    return results


def load_all(
    paths: ResultSource | Iterable[ResultSource], kind: str | Sequence[str] | None = None
) -> list[Result]:
    """Return every finished result at or under these folders, of some kinds or of any.

    Results that are given as such, or in a grid, are among them. Unfinished work and manifests of
    other programs are passed over; a copy counts once. Raises `RunError` for what is missing, of
    another kind or of another format.
    """
    kinds = (kind,) if isinstance(kind, str) else kind
    results: dict[object, Result] = {}
    for source in listed(paths):
        if isinstance(source, Tabular):
            results |= {id(result): result for result in source.results}
            if other := [it.kind for it in source.results if kinds and it.kind not in kinds]:
                raise RunError(f"a {other[0]} is given; expected {' or '.join(kinds or ())}")
            continue
        root = Path(source)
        if not root.exists():
            raise RunError(f"{root}: no such folder")
        finished = [folder for folder in result_folders(root) if _is_of(folder, kinds)]
        if not finished:
            what = "result" if kinds is None else " or ".join(kinds)
            raise RunError(f"{root}: no finished {what} at or under this folder")
        for folder, result in zip(finished, _load_each(finished), strict=True):
            results.setdefault((read_manifest(folder).folder(Path()), result.content_hash), result)
    return list(results.values())


def _is_of(folder: Path, kinds: Sequence[str] | None) -> bool:
    if is_foreign(folder):
        return False
    there = read_manifest(folder).kind  # of every folder, so that an older one is refused
    return (kinds is None or there in kinds) and (folder / SUMMARY).is_file()
