"""From the rows of a file or frame to questions and pairs: columns mapped, bad rows named."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from palate.data.account import Account
from palate.data.asked import posts_of, with_posts
from palate.data.columns import VOTE_OF, LayoutOptions, Numbered, Row, changed
from palate.data.files import download, read_rows, stem
from palate.data.layouts import NUMBERED, TOLD, understand
from palate.data.notes import RowNotes
from palate.data.rows import CHOICE, KNOWN, REQUIRED, as_mapping, read_question
from palate.data.streams import MAX_LINE, FileReading
from palate.data.tables import rows_of_frame
from palate.data.types import STRUCTURED, decoded, tidied
from palate.errors import BenchmarkError, DataError, UsageError
from palate.records import DistinctNames, PreferencePair, Question

LOG = logging.getLogger("palate")
Place = Callable[[int], tuple[str, int]]
"""Number of a row → its file and line."""
EXTRA, VOTES, TRAITS = "extra", "votes", "traits"
OF_LAYOUTS = frozenset(
    {*TOLD, "response_a", "response_b", "input", "system", "history"} | {EXTRA, VOTES}
)
"""Names that layouts know and the contract does not; `extra` is kept, and read by nothing."""
OF_POSTS = ("user_id", "text", "date")
FLAGS = {"columns": "map", "votes": "vote", "name": "layout", "posts_columns": "posts-map"}
"""Options whose flag has another name."""


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

    def words(self) -> list[str]:
        """Return the words of a command line that ask for the same; of a path, its last name."""
        words: list[str] = []
        for options in (self, self.layout):
            default = type(options)()
            for name in (option.name for option in fields(options)):
                value = getattr(options, name)
                if name in ("layout", "mapped"):
                    continue
                if name == "posts" and value is not None:  # a frame has no words
                    value = Path(value) if isinstance(value, str | Path) else None
                if value == getattr(default, name):
                    continue
                if name == "max_line":
                    value /= 2**20
                flag = f"--{FLAGS.get(name, name).replace('_', '-')}"
                if isinstance(value, Path):
                    value = value.name
                if isinstance(value, Mapping):
                    words += [w for k, v in value.items() for w in (flag, f"{k}={v}")]
                else:
                    words += [flag] if value is True else [flag, str(value)]
        return words

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


class LoadedRows(NamedTuple):
    """What a file gave: its rows, those left out, and the columns palate does not know."""

    rows: tuple[Question, ...]
    bad_rows: tuple[DataError, ...]
    unknown_columns: tuple[str, ...]
    account: Account
    reading: str | None = None
    """The layout that was read; None where the rows are of the contract as they lie."""

    def fields(self, options: LoadOptions) -> dict[str, Any]:
        """Return what a data set takes of them, and of how they were read."""
        undated = options.order_as_in_file
        return {**self._asdict(), "columns": options.columns, "order_as_in_file": undated}


def load_rows(
    path: Path | str,
    options: LoadOptions | None = None,
    *,
    subset: str | None = None,
    files: Sequence[Path] | None = None,
) -> LoadedRows:
    """Read a file, a folder of shards, or the `files` that a path stands for.

    Rows are of the contract, or of a layout that is known. The first bad row raises its `DataError`
    unless they are skipped; then bad rows are left out and returned. Ids of users, rows, subsets or
    splits that differ in form alone raise it in any case.
    """
    options, account = options or LoadOptions(), Account(str(path))
    quoting = options.layout.quoting
    how = FileReading(account, options.max_line, structured_columns(options.columns), quoting)
    rows = read_rows(path, how, files=files)
    return understood(rows, account, subset or stem(Path(path).name), options, rows.place)


def understood(
    rows: Iterable[Numbered],
    account: Account,
    subset: str,
    options: LoadOptions,
    place: Place | None = None,
) -> LoadedRows:
    """Rename columns, recognise the layout, add the posts of a second file, and check the rows."""
    layout, columns, source = options.layout, options.columns, account.source
    mapped = Mapped(rows, columns)
    reading, rows, unnamed = understand(iter(mapped), layout, account, frozenset(columns))
    if (given := layout.posts) is not None:
        if isinstance(given, str | Path):
            how, file = FileReading(account, quoting=layout.quoting), str(given)
            lines = iter(read_rows(given, how))
        else:
            lines, file = rows_of_frame(given), "posts"
        dated = not options.order_as_in_file
        posts = posts_of(lines, file, account, layout.posts_columns, dated=dated)
        rows = with_posts(rows, posts, file, account)
    loaded = collect(rows, account, subset, options, place)
    mapped.check(source)
    named = {n: f"{use} (--map)" if n in columns else use for n, use in account.columns.items()}
    account.columns = {columns.get(name, name): use for name, use in named.items()}
    if unnamed:
        LOG.info("%s: rows have no id: each is named by its content", source)
    return loaded._replace(reading=str(reading) if reading else None)


@contextmanager
def _without_gc() -> Iterator[None]:
    # All rows stay and make no cycles; looking for some takes a fourth of the time.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_without_gc()
def collect(
    rows: Iterable[Numbered],
    account: Account,
    subset: str,
    options: LoadOptions | None = None,
    place: Place | None = None,
) -> LoadedRows:
    """Check numbered rows one by one; duplicate ids are bad rows too.

    `place` gives the file and line of a number, where they are not the source and the number.

    What a reader would not expect of the rows goes to the account, which is logged.
    """
    questions: list[Question] = []
    bad: list[DataError] = []
    numbers: dict[tuple[str, str], int] = {}
    names = DistinctNames()
    notes = RowNotes()
    source, options = account.source, options or LoadOptions()
    place = place or (lambda number: (source, number))
    undated = options.order_as_in_file

    def in_words(number: int) -> str:
        file, line = place(number)
        return f"row {line}" if file == source else f"{file}:{line}"

    for number, row in rows:
        try:
            left_out: list[str] = []
            checked = as_mapping(row)
            question = read_question(tidied(checked), subset, left_out, order_as_in_file=undated)
            who = question.id, question.user_id
            if (used := numbers.get(who)) is not None:
                raise DataError(f"{question.id!r} was used in {in_words(used)}", field="id")
        except DataError as error:
            named = error.at(*place(number))
            if not options.skip_bad_rows:
                raise named from None
            bad.append(named)
            continue
        numbers[who] = number
        _note_names(question, names, source, in_words(number))
        notes.take(checked, question, left_out, in_words(number))
        questions.append(question)
    questions = _told_apart(questions, account)
    if not questions:
        where = f"row {bad[0].line}" if bad and bad[0].file == source else str(bad and bad[0].file)
        first = f": {len(bad)} bad, the first in {where}" if bad else ""
        why = f" ({bad[0].problem})" if bad else ""
        field = bad[0].field if bad else None
        raise DataError(f"holds no usable row{first}{why}", file=source, field=field)
    notes.write(account, order_as_in_file=undated)
    account.count(questions, bad)
    account.warn()
    return LoadedRows(tuple(questions), tuple(bad), tuple(sorted(notes.unknown)), account)


def _told_apart(questions: list[Question], account: Account) -> list[Question]:
    """Return rows of an id each, shared ids as id-user; `DataError` if `mirror_of` names one."""
    times = Counter(question.id for question in questions)
    shared = {name for name, n in times.items() if n > 1}
    if not shared:
        return questions
    for question in questions:
        if getattr(question, "mirror_of", None) in shared:
            problem = "names an id that several users' rows have; map an id of votes (--map id=…)"
            raise DataError(problem, file=account.source, field="mirror_of")
    told_apart = []
    for question in questions:
        new = {"id": f"{question.id}-{question.user_id}"} if question.id in shared else {}
        if new and question.user_id == question.id:  # a row that names no user stays one
            new["user_id"] = new["id"]
        told_apart.append(question.model_copy(update=new))
    if len({question.id for question in told_apart}) < len(questions):
        problem = "is another row's id joined to its user; map an id of votes (--map id=…)"
        raise DataError(problem, file=account.source, field="id")
    account.merge(
        "rows share an id with other users' rows, and are named id-user",
        sum(times[name] for name in shared),
    )
    return told_apart


def _note_names(question: Question, names: DistinctNames, source: str, place: str) -> None:
    mirror_of = question.mirror_of if isinstance(question, PreferencePair) else None
    in_use = {"user": question.user_id, "subset": question.subset, "split": question.split or ""}
    try:
        names.add("row", question.id, place)
        names.add("row", mirror_of or question.id, f"`mirror_of` of {place}")
        for what, name in in_use.items():
            names.add(what, name, place)
    except DataError as error:
        raise error.at(source) from None


def structured_columns(columns: Mapping[str, str]) -> set[str]:
    """Return the file's columns that hold lists or objects, where these are mapped."""
    return {columns.get(name, name) for name in STRUCTURED - (columns.keys() & {TRAITS})}


def parse_columns(pairs: Sequence[str]) -> dict[str, str]:
    """Read `--map chosen=better` flags.

    >>> parse_columns(["chosen=better", "votes=anna,ben"])
    {'chosen': 'better', 'vote of anna': 'anna', 'vote of ben': 'ben'}
    """
    columns: dict[str, str] = {}
    known = KNOWN | OF_LAYOUTS | {*filter(NUMBERED.fullmatch, (t.partition("=")[0] for t in pairs))}
    for ours, theirs in _named(pairs, "--map", known):
        if ours == VOTES:
            columns |= {f"{VOTE_OF}{name}": name for name in theirs.split(",")}
        else:
            both = ours in (EXTRA, TRAITS) and ours in columns
            columns[ours] = f"{columns[ours]},{theirs}" if both else theirs
    return columns


def parse_posts_columns(pairs: Iterable[str]) -> dict[str, str]:
    """Read `--posts-map date=when` flags.

    >>> parse_posts_columns(["date=when"])
    {'date': 'when'}
    """
    return dict(_named(pairs, "--posts-map", OF_POSTS))


def _named(pairs: Iterable[str], flag: str, known: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in pairs:
        ours, _, theirs = text.partition("=")
        if not theirs or ours not in known:
            names = ", ".join(sorted(known))
            raise UsageError(f"{flag} {text}: write palate's column=your column (one of {names})")
        yield ours, theirs


class Mapped:
    """Rows under mapped names; `unmet` holds what no row had."""

    def __init__(self, rows: Iterable[Numbered], columns: Mapping[str, str]) -> None:
        self.rows, self.columns = rows, dict(columns)
        lists = {n: [*filter(None, self.columns.pop(n, "").split(","))] for n in (EXTRA, TRAITS)}
        self.extra, self.traits = lists.values()
        each = {f"{ours} ({name})": name for ours, names in lists.items() for name in names}
        self.unmet = self.columns | each

    def __iter__(self) -> Iterator[Numbered]:
        """Yield (row number, row or its `DataError`)."""
        return changed(self.rows, self._renamed) if self.unmet else iter(self.rows)

    def check(self, source: str) -> None:
        """Raise `DataError` where a column was named that no row had."""
        for ours, theirs in self.unmet.items():
            name = ours.partition(" (")[0]
            problem = f"no row has {theirs!r} (from --map {name}={theirs})"
            raise DataError(problem, file=source, field=name)

    def _renamed(self, row: Row) -> Row:
        self.unmet = {o: t for o, t in self.unmet.items() if t not in row}
        mapped, named = dict(row), dict[str, Any]()
        for name in filter(row.__contains__, dict.fromkeys(self.traits)):
            cell = value = row[name] if name in KNOWN else mapped.pop(name)
            with suppress(DataError):  # a text may begin like JSON
                value = decoded(cell) if isinstance(cell, str) else cell
            mapped[TRAITS] = named = named | (value if isinstance(value, dict) else {name: cell})
        for column, source in self.columns.items():
            if source in row:
                mapped[column] = row[source]
                if source not in self.columns and source not in KNOWN:
                    mapped.pop(source, None)
            elif column in (*REQUIRED, *CHOICE):
                problem = f"no column {source!r} (from --map {column}={source})"
                raise DataError(problem, field=column)
            else:
                mapped.pop(column, None)
        return {f"{n} ({EXTRA})" if n in self.extra else n: cell for n, cell in mapped.items()}
