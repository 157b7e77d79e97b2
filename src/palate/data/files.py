"""Which reader reads which file, and which files are one data set."""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from palate.data.columns import WHO
from palate.data.json_array import read_json
from palate.data.streams import PACKED, ByteStream, FileReading, parse, read_jsonl
from palate.data.tables import read_csv, read_parquet
from palate.data.types import plain
from palate.errors import DataError, HubError, UsageError, first_line

LOG = logging.getLogger("palate")
TEXT = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
FORMATS = (*map("".join, product(TEXT, ("", *PACKED))), ".parquet")
READABLE = f"{', '.join(TEXT)} (each also {' or '.join(PACKED)}) or .parquet"
# What libraries of data sets write beside the rows.
BESIDE = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json")
NUMBERS = re.compile(r"-\d+-of-\d+.*$|\d+")


class RowFiles:
    """The rows of one data set in several files; a later file's numbers follow the one before."""

    def __init__(self, files: Sequence[Path], how: FileReading) -> None:
        self.files, self.how = tuple(files), how
        self._before: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        self._before = [0]
        first: tuple[set[str], set[str]] | None = None
        for file in self.files:
            before = number = self._before[-1]
            names, always = set[str](), set[str]()
            for line, row in read_file(file, self.how):
                number = before + line
                if isinstance(row, dict):
                    always = always & row.keys() if names else set(row)
                    names.update(row)
                yield number, plain(row) if isinstance(row, dict) else row
            self._before.append(number)
            if names:
                first = first or (names, always)
                self._compare(file, names, always, *first)

    def _compare(
        self, file: Path, names: set[str], always: set[str], first: set[str], all_first: set[str]
    ) -> None:
        for name in sorted(names ^ first):
            has, lacks = (file, self.files[0]) if name in names else (self.files[0], file)
            what = f"{lacks.name} has no column {name!r}, which {has.name} has"
            if name in WHO and name in always | all_first:
                raise DataError(f"{what}: whose rows are they?", file=str(lacks), field=name)
            self.how.account.say(what)

    def place(self, number: int) -> tuple[str, int]:
        """Return the file and line of a row that was read."""
        k = max(bisect_left(self._before, number) - 1, 0)
        return str(self.files[k]), number - self._before[k]


def read_rows(
    path: Path | str, how: FileReading | None = None, *, files: Sequence[Path] | None = None
) -> RowFiles:
    """Return the numbered rows of a file, of a folder of shards, or of the `files` it stands for.

    Iterating yields (number, mapping or the `DataError` of that row), one row in memory at a time.
    NaN is missing. What differs between files, the account says; whom a file's rows are of must
    stand in all. Raises `DataError` for what is not there, is in no known format or holds several
    data sets.
    """
    return RowFiles(files_of(Path(path)) if files is None else files, how or FileReading())


def read_file(path: Path, how: FileReading | None = None) -> Iterator[tuple[int, Any]]:
    """Yield (line or row number, row or its `DataError`) of one file, by its ending.

    A JSON list that is named as JSON Lines, and JSON Lines named `.json`, are read as what they
    are, which is logged.
    """
    ending, how = format_of(path), how or FileReading()
    if ending == ".parquet":
        return read_parquet(path)
    if ending in (".csv", ".tsv"):
        return read_csv(path, "," if ending == ".csv" else "\t", how)
    lines = _holds_lines(path, how.max_line, ending != ".json")
    if lines == (ending == ".json"):
        LOG.warning(
            "%s: holds %s, and is read as such", path, "JSON Lines" if lines else "one JSON list"
        )
    if lines:
        return read_jsonl(path, how)
    return read_json(path, how)


def _holds_lines(path: Path, max_line: int, named_lines: bool) -> bool:
    with ByteStream(path) as stream:
        first = b""
        while (raw := stream.readline(max_line + 2)) and not (first := raw.strip()):
            pass
        if named_lines or not first.startswith(b"{"):
            return named_lines and not first.startswith(b"[")
        # One object in a line, and more after it: lines. Otherwise the document is the object.
        if not raw.endswith(b"\n") or isinstance(parse(first, path, 1), DataError):
            return False
        while raw := stream.readline(max_line):
            if raw.strip():
                return True
        return False


def format_of(path: Path) -> str:
    """Return a file's format as an ending, `.ndjson` as `.jsonl`; raises `DataError` for none.

    >>> format_of(Path("none.csv"))
    Traceback (most recent call last):
    palate.errors.DataError: none.csv: no such file or folder
    """
    if not path.is_file():
        what = "is a folder; expected a file" if path.is_dir() else "no such file or folder"
        raise DataError(what, file=str(path))
    if (ending := _ending(path.name)) is None:
        raise DataError(f"unknown format; expected {READABLE}", file=str(path))
    return ending


def is_readable(name: str) -> bool:
    """Tell whether a file's name has the ending of a known format.

    >>> is_readable("Votes.CSV"), is_readable("votes.csv.gz"), is_readable("votes.xlsx")
    (True, True, False)
    """
    return name.lower().endswith(FORMATS)


def stem(name: str) -> str:
    """Return a file's name without the ending of its format.

    >>> stem("wine.v2.jsonl.gz")
    'wine.v2'
    """
    for ending in sorted(FORMATS, key=len, reverse=True):
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name


def files_of(path: Path) -> list[Path]:
    """Return a file, or the files of the one data set in a folder, sorted by name.

    Raises `DataError` for no such file, a format that is not known, and a folder without any file
    of rows, with several data sets or several formats.
    """
    if not path.is_dir():
        format_of(path)
        return [path]
    names = [file.name for file in path.iterdir() if file.is_file()]
    return [path / name for name in one_data_set(names, str(path))]


def one_data_set(names: Iterable[str], where: str, part: str = "") -> list[str]:
    """Return those of the names (with `/` for folders) that are the data set, or its `part`.

    Files are one data set that lie in one folder and whose names differ in numbers only. A part is
    a file, a data set (`data/train` for `data/train-00000-of-00002.parquet` and its like), or a
    folder that holds one. Raises `DataError`, with what there is, where that is none or more than
    one.

    >>> names = ["README.md", "data/test-00000-of-00001.parquet", "data/train-0.parquet"]
    >>> one_data_set(names, "ORG/NAME", "data/test")
    ['data/test-00000-of-00001.parquet']
    """
    known = sorted(name for name in names if _holds_rows(name))
    if not known:
        raise DataError(f"holds no file of rows; expected {READABLE}", file=where)
    if part in known:
        return [part]
    sets: dict[str, list[str]] = {}
    for name in known:
        sets.setdefault(_data_set(name), []).append(name)
    within = {
        name: files
        for name, files in sets.items()
        if not part or name == part or name.startswith(f"{part}/")
    }
    if part in within:
        within = {part: within[part]}
    if not within:
        raise DataError(f"has no {part!r}; it holds {_listed(sets)}", file=where)
    examples = {_ending(name): name for files in within.values() for name in files}
    if len(examples) > 1:
        formats = " and ".join(sorted(examples.values()))
        raise DataError(
            f"holds files of several formats ({formats}); name one file, or keep one format",
            file=where,
        )
    if len(within) > 1:
        raise DataError(f"holds several data sets; name one of them: {_listed(within)}", file=where)
    (files,) = within.values()
    if len(files) > 1:
        LOG.info("%s: %d files are read as one, %s to %s", where, len(files), files[0], files[-1])
    return files


def _data_set(name: str) -> str:
    folder, slash, file = name.rpartition("/")
    short = NUMBERS.sub("", stem(file)).strip("-_. ")
    return f"{folder}{slash}{short}" if short else folder


def _listed(sets: Mapping[str, Sequence[str]]) -> str:
    shown = [
        name or (files[0] if len(files) == 1 else f"{files[0]} and others")
        for name, files in sorted(sets.items())
    ]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")


def _holds_rows(name: str) -> bool:
    *folders, file = name.split("/")
    hidden = any(part.startswith((".", "_")) for part in (*folders, file))
    return is_readable(file) and not hidden and file not in BESIDE


def _ending(name: str) -> str | None:
    plain = name.lower()
    for packed in PACKED:
        plain = plain.removesuffix(packed)
    ending = next((ending for ending in TEXT if plain.endswith(ending)), None)
    if ending is None:
        return ".parquet" if name.lower().endswith(".parquet") else None
    return ".jsonl" if ending == ".ndjson" else ending


def download(
    repository: str,
    choose: Callable[[Sequence[str]], Sequence[str]],
    revision: str = "main",
    advice: str = "without a network use --source DIR",
) -> tuple[tuple[Path, ...], str]:
    """Fetch the files of a data-set repository that `choose` takes of all its names.

    Returns their paths and the commit they are of. The revision is resolved to that commit once,
    first. Raises `HubError` where the hub cannot be reached or lacks the files.
    """
    what = f"data set {repository}@{revision}"
    missing = f"{repository}: the hub needs pip install 'palate[hub]'"
    with hub(what, advice, missing) as client:
        info = client.HfApi().dataset_info(repository, revision=revision)
        commit = info.sha or revision
        names = [sibling.rfilename for sibling in info.siblings or ()]
        fetched = (
            client.hf_hub_download(repository, name, repo_type="dataset", revision=commit)
            for name in choose(names)
        )
        return tuple(map(Path, fetched)), commit


@contextmanager
def hub(what: str, advice: str, missing: str) -> Iterator[Any]:
    """Give `huggingface_hub`, its errors as `HubError` with advice; `UsageError` without it."""
    try:
        import huggingface_hub
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise UsageError(missing) from error
    # Its bases are OSError and the base error of the HTTP library that the hub's client uses;
    # ValueError: what answered speaks no JSON, or the name or revision is malformed.
    bases = (base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception))
    expected: tuple[type[Exception], ...] = (*bases, ValueError)
    try:
        yield huggingface_hub
    except expected as error:
        raise HubError(f"{what}: {first_line(error)}; {advice}") from error
