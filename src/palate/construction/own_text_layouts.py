"""Files of users' texts, each layout read into one form: an input, its user's text, earlier texts.

LaMP is `*_questions.json` with `*_outputs.json` beside it, tasks 4 to 7; LongLaMP is rows of input,
output and profile; palate's own rows hold the user's text in `reference`, or else in `chosen`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from palate.construction.rows import Dropped, RowStore, date_of, possible_text, read_each, text_of
from palate.data import PACKED, as_mapping, files_of, read_file, read_json, read_parts
from palate.errors import DataError, UsageError

ADAPT = "adapt"
Row = Mapping[str, Any]
QUOTED = re.compile(r'"([^"]+)"')
LAMP_TASKS: Mapping[str, tuple[str, str]] = {
    "4": ("title", "text"),
    "5": ("title", "abstract"),
    "6": ("title", "text"),
    "7": ("text", ""),
}
"""Headlines of articles, titles of abstracts, subjects of messages, tweets.

Which field of an item holds what the user wrote, and which what it was written on.
"""
JSON = tuple(f".json{packed}" for packed in ("", *PACKED))
LAMP_NAME = re.compile(r"lamp[ _-]?(\d)", re.IGNORECASE)
INSTRUCTION = re.compile(r"(?:\S+ ){1,15}?\S*:\s+")
"""What stands before the first colon of an input, if that is at most sixteen words."""
OUTPUTS = "CREATE TABLE outputs (id TEXT PRIMARY KEY, output TEXT, used INTEGER DEFAULT 0)"


class EarlierText(NamedTuple):
    """One text of a user's profile."""

    id: str | None
    text: str
    question: str | None = None
    """What the text answers, as a row would ask it; None where that is not known."""
    source: str | None = None
    """The part of the question that other questions lack."""
    date: str | None = None
    attribution: str = ""


class OwnTextEntry(NamedTuple):
    """One input with its user's own text."""

    id: str
    user: str
    question: str
    source: str
    text: str
    earlier: tuple[EarlierText, ...] = ()
    date: str | None = None
    category: str = ""
    split: str = "test"
    attribution: str = ""
    """Whose texts these are, and under which licence; the own text's after `; answer: `."""
    is_beside: bool = False
    """Whether other rows may reject the text although it has no row itself."""
    foreign_edit: bool = False
    """Whether somebody else edited the text last."""


Entries = Iterator[OwnTextEntry | DataError | Dropped]
"""What a layout yields: entries, the errors of rows that cannot be read, and what is no entry."""


def read_rows(files: list[Path]) -> Entries:
    """Yield palate's own rows; those whose `split` is `adapt` stay in that split.

    An item of the profile may name its `question`, and then its text is adapted to.
    """
    for path in files:
        yield from read_each(path, read_file(path), _row_entry)


def _row_entry(row: Row, *_: object) -> OwnTextEntry:
    name, question = text_of(row, "id"), text_of(row, "question")
    if row.get("turns"):
        raise DataError(
            "pairs of own texts are built for questions of one turn; leave the row out, or write "
            "the conversation into its question",
            field="turns",
        )
    text = possible_text(row, "reference") or possible_text(row, "chosen")
    if not text:
        raise DataError("expected the user's own text here or in `chosen`", field="reference")
    is_adapt = row.get("split") == ADAPT
    return OwnTextEntry(
        id=name,
        user=possible_text(row, "user_id") or name,
        question=question,
        source=question,
        text=text,
        earlier=() if is_adapt else _earlier(row, "text", "question"),
        date=date_of(row),
        category=possible_text(row, "category"),
        split=ADAPT if is_adapt else "test",
    )


def _earlier(
    row: Row, text: str, source: str, question: Callable[[Row, str], str] = lambda _, source: source
) -> tuple[EarlierText, ...]:
    """Return the texts of a row's profile: which column is the text, which what it was written on.

    `question` makes of an item and its source what a row would ask. Raises `DataError` unless the
    profile is a list of one object or more.
    """
    items = row.get("profile")
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise DataError("expected a list of objects", field="profile")
    if not items:
        raise DataError("the user has no earlier text", field="profile")
    earlier = []
    for item in items:
        written_on, written = possible_text(item, source), possible_text(item, text)
        asked = question(item, written_on) if written_on else None
        name, date = possible_text(item, "id") or None, date_of(item)
        earlier.append(EarlierText(name, written, asked, written_on or None, date))
    return tuple(earlier)


class LongLampTask(NamedTuple):
    """Where an item of the profile holds the user's text, and what it was written on."""

    text: str
    source: str
    more: tuple[str, ...]
    question: str
    """How an item's question begins."""

    def ask(self, item: Row, source: str) -> str:
        """Return what an item would be asked by."""
        more = ((name, possible_text(item, name)) for name in self.more)
        lines = [f"{name.capitalize()}: {value}" for name, value in more if value]
        return "\n".join([self.question, source, *lines])


LONGLAMP_TASKS = {
    "reviewerId": LongLampTask(
        "reviewText", "description", ("summary", "overall"), "Review this product."
    ),
    "name": LongLampTask("abstract", "title", (), "Write the abstract of this paper."),
    "author": LongLampTask("content", "summary", (), "Write the post that this sums up."),
}
"""By the column that names the user."""


def read_longlamp(files: list[Path]) -> Entries:
    """Yield LongLaMP's rows; what has no id is named by its file and number."""
    for path in files:
        yield from read_each(path, read_file(path), _longlamp_entry)


def _longlamp_entry(row: Row, path: Path, line: int) -> OwnTextEntry:
    named_by = next((column for column in LONGLAMP_TASKS if row.get(column) is not None), None)
    if named_by is None:
        raise DataError("expected a user in reviewerId, name or author", field="reviewerId")
    question, task = text_of(row, "input"), LONGLAMP_TASKS[named_by]
    return OwnTextEntry(
        id=possible_text(row, "id") or f"{path.name.partition('.')[0]}-{line}",
        user=text_of(row, named_by),
        question=question,
        # The longest quotation: a product's description, a paper's title, a post's summary.
        source=max(QUOTED.findall(question), key=len, default=question),
        text=text_of(row, "output"),
        earlier=_earlier(row, task.text, task.source, task.ask),
        date=date_of(row),
    )


def lamp_files(source: Path, outputs: Path | None) -> list[Path]:
    """Return the questions and their outputs; raises `UsageError` where one is not there."""
    if source.is_dir():
        listed = sorted(path for path in source.iterdir() if "_questions.json" in path.name)
        if len(listed) != 1:
            names = ", ".join(path.name for path in listed) or "none"
            raise UsageError(f"{source}: expected one *_questions.json, there are: {names}")
        (source,) = listed
    (questions,) = files_of(source)
    if not questions.name.endswith(JSON):
        raise UsageError(f"{questions}: expected a file that ends in {', '.join(JSON)}")
    outputs = outputs or questions.with_name(questions.name.replace("questions", "outputs"))
    if not outputs.is_file() or outputs == questions:
        raise UsageError(f"{questions}: no outputs in {outputs}; name them with --outputs FILE")
    return [questions, outputs]


def read_lamp(files: list[Path]) -> Entries:
    """Yield LaMP's questions with their outputs; raises `DataError` for its label tasks."""
    questions, outputs = files
    task = LAMP_TASKS[_lamp_task(outputs)]
    with closing(RowStore(OUTPUTS)) as store:
        _store_outputs(store, outputs)
        number = 0
        for number, row in read_json(questions):
            try:
                yield _lamp_entry(as_mapping(row), task, store, outputs)
            except DataError as error:
                yield error.at(questions, number)
        if not number:
            raise DataError("holds no question; expected a JSON list", file=str(questions))
        for (name,) in store.rows("SELECT id FROM outputs WHERE used = 0 ORDER BY rowid"):
            yield DataError(f"the output {name!r} has no question", file=str(outputs), field="id")


def _lamp_task(outputs: Path) -> str:
    name = next((part.value for part in read_parts(outputs) if part.name == "task"), None)
    match = LAMP_NAME.search(name) if isinstance(name, str) else None
    if match is None:
        raise DataError(f"expected LaMP_4 to LaMP_7, got {name!r}", file=str(outputs), field="task")
    if match[1] not in LAMP_TASKS:
        raise DataError(
            f"{name} asks for a label, so it holds no text of a user's; take LaMP 4, 5, 6 or 7",
            file=str(outputs),
            field="task",
        )
    return match[1]


def _store_outputs(store: RowStore, path: Path) -> None:
    for number, value in read_json(path):
        try:
            row = as_mapping(value)
            output = {"id": text_of(row, "id"), "output": possible_text(row, "output")}
            if store.put("outputs", output) is None:
                raise DataError(f"{output['id']!r} is there twice", field="id")
        except DataError as error:
            raise error.at(path, number) from None


def _lamp_entry(row: Row, task: tuple[str, str], store: RowStore, outputs: Path) -> OwnTextEntry:
    name, question = text_of(row, "id"), text_of(row, "input")
    stored = store.first("UPDATE outputs SET used = 1 WHERE id = ? RETURNING output", name)
    if stored is None or not stored[0]:
        lack = "no output" if stored is None else "an empty output"
        raise DataError(f"the question {name!r} has {lack} in {outputs.name}", field="id")
    match = INSTRUCTION.match(question)
    instruction = match[0] if match else ""
    return OwnTextEntry(
        id=name,
        user=possible_text(row, "user_id") or name,
        question=question,
        source=question[len(instruction) :] or question,
        text=stored[0],
        earlier=_earlier(row, *task, lambda _, source: f"{instruction}{source}"),
        date=date_of(row),
    )
