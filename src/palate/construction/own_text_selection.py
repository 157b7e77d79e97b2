"""Rows of both splits on disk, and which of them and their texts stay, as stages with reasons."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from palate.construction.leaks import NOT_EARLIER, Guard, is_earlier, text_key
from palate.construction.own_text_layouts import ADAPT, EarlierText, Entries, OwnTextEntry
from palate.construction.rows import Dropped, RowStore, Stage, dropped_by_row, microseconds
from palate.errors import DataError
from palate.records.dates import Instant, instant_of, oldest_first
from palate.seeding import canonical_json, digest

CANDIDATES = 100
"""Most texts of other authors among which one is drawn."""
TABLES = """
CREATE TABLE rows (
  n INTEGER PRIMARY KEY, split TEXT, id TEXT, user TEXT, question BLOB, text BLOB, date TEXT,
  start INTEGER, row TEXT, kept INTEGER, rejected TEXT, rejected_by TEXT, stage TEXT, reason TEXT
);
CREATE UNIQUE INDEX by_name ON rows (split, id, CASE split WHEN 'adapt' THEN user END);
CREATE TABLE in_test (what TEXT, key BLOB, PRIMARY KEY (what, key)) WITHOUT ROWID;
"""
INDEXES = """
CREATE INDEX by_question ON rows (question);
CREATE INDEX by_user ON rows (user, split, question, text);
CREATE INDEX by_split ON rows (split, kept, n);
"""
STORED = "SELECT n, user, question, text, date, row FROM rows WHERE"


@dataclass(frozen=True)
class StoredText:
    """A row on its way; other rows may share its user, its question and its text."""

    n: int
    user: str
    question: bytes
    text: bytes
    date: str | None
    document: str

    @cached_property
    def row(self) -> dict[str, Any]:
        """The columns of the contract without `rejected`, and `source`: what it was written on."""
        return dict(json.loads(self.document))

    @property
    def instant(self) -> Instant | None:
        """When it was written."""
        return instant_of(self.date)


class OwnTextStore(RowStore):
    """Rows by user, by question and by text; those that are left out stay, with the reason."""

    def __init__(self) -> None:
        super().__init__(TABLES)

    def add(self, row: Mapping[str, Any], name: str, date: str | None) -> int | None:
        """Keep a row for now; None where a row of this name (of adapt: of this user) is there."""
        instant = instant_of(date)
        columns = {"split": row["split"], "id": name, "user": row["user_id"], "date": date}
        columns |= {"question": text_key(row["source"]), "text": text_key(row["chosen"])}
        columns |= {"start": instant and microseconds(instant.start), "kept": 1}
        return self.put("rows", {**columns, "row": canonical_json(row)})

    def drop(self, n: int, stage: str, reason: str) -> None:
        """Leave a row out."""
        outcome = "UPDATE rows SET kept = 0, stage = ?, reason = ? WHERE n = ?"
        self.db.execute(outcome, (stage, reason, n))

    def reject(self, n: int, text: str, by: str) -> None:
        """Give a row its rejected text, and say whose it is."""
        self.db.execute("UPDATE rows SET rejected = ?, rejected_by = ? WHERE n = ?", (text, by, n))

    def numbers(self, split: str, condition: str = "1") -> list[int]:
        """Return the numbers of the rows that are kept: adapt rows user by user, oldest first."""
        listed = self.db.execute(
            f"SELECT n FROM rows WHERE split = ? AND kept AND ({condition})"
            " ORDER BY min(n) OVER (PARTITION BY CASE split WHEN 'adapt' THEN user ELSE n END),"
            " CASE split WHEN 'adapt' THEN start END, n",
            (split,),
        )
        return [n for (n,) in listed]

    def get(self, n: int) -> StoredText:
        """Return a row."""
        return StoredText(*self.first(f"{STORED} n = ?", n))

    def texts(self, split: str) -> Iterator[StoredText]:
        """Yield the rows that are kept."""
        return map(self.get, self.numbers(split))

    def of_user(self, split: str, user: str) -> list[StoredText]:
        """Return the rows of one user that are kept, in the order of the source."""
        listed = self.rows(f"{STORED} split = ? AND user = ? AND kept ORDER BY n", split, user)
        return [StoredText(*line) for line in listed]

    def by_user(self, split: str) -> Iterator[list[StoredText]]:
        """Yield the rows of each user that are kept, both in the order of the source."""
        users = "SELECT user FROM rows WHERE split = ? AND kept GROUP BY user ORDER BY min(n)"
        for (user,) in self.rows(users, split):
            yield self.of_user(split, user)

    def is_repeated(self, row: StoredText, split: str) -> bool:
        """Tell whether an earlier row of the split that is kept has question, text and user."""
        same = "SELECT 1 FROM rows WHERE user = ? AND split = ? AND question = ? AND text = ?"
        values = (row.user, split, row.question, row.text, row.n)
        return self.first(f"{same} AND kept AND n < ? LIMIT 1", *values) is not None

    def is_shared(self, row: StoredText) -> bool:
        """Tell whether another user wrote the same words on the same input."""
        same = "SELECT 1 FROM rows WHERE question = ? AND user <> ? AND text = ? LIMIT 1"
        return self.first(same, row.question, row.user, row.text) is not None

    def other_texts(self, row: StoredText) -> Iterator[list[str]]:
        """Yield other users' texts on the same input by the hundred, those of rows left out too."""
        listed = self.db.execute(
            "SELECT json_extract(row, '$.chosen') FROM rows"
            " WHERE question = ? AND user <> ? AND text <> ? ORDER BY n",
            (row.question, row.user, row.text),
        )
        while page := listed.fetchmany(CANDIDATES):
            yield [text for (text,) in page]

    def keep_test_keys(self) -> None:
        """Note users, questions and every text of the test rows, which adapt rows are held to."""
        for what in ("user", "question"):
            keys = f"SELECT DISTINCT '{what}', {what} FROM rows WHERE split = 'test' AND kept"
            self.db.execute(f"INSERT INTO in_test {keys}")
        for n in self.numbers("test"):
            texts = "SELECT json_extract(row, '$.chosen'), rejected FROM rows WHERE n = ?"
            for text in self.first(texts, n):
                self.put("in_test", {"what": "text", "key": text_key(text)})

    def is_in_test(self, what: str, key: str | bytes) -> bool:
        """Tell whether a test row is of this `user`, has this `question` or holds this `text`."""
        return self.first("SELECT 1 FROM in_test WHERE what = ? AND key = ?", what, key) is not None

    def counts(self, split: str) -> dict[str, int]:
        """Return rows, users and inputs of a split, and how many rows reject whose text."""
        rows, users, inputs, authors = self.first(
            "SELECT count(*), count(DISTINCT user), count(DISTINCT question),"
            " total(rejected_by = 'others') FROM rows WHERE split = ? AND kept",
            split,
        )
        against = {"against_authors": int(authors), "against_model": rows - int(authors)}
        return {"rows": rows, "users": users, "inputs": inputs, **against}

    def finished(self, split: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a split with their rejected text, and with whose that is."""
        for n in self.numbers(split):
            row, rejected, by = self.first(
                "SELECT row, rejected, rejected_by FROM rows WHERE n = ?", n
            )
            columns = json.loads(row)
            del columns["source"]
            if "attribution" in columns and (other := self._attribution(n, rejected)):
                columns["attribution"] += f"; rejected: {other}"
            yield {**columns, "rejected": rejected, "rejected_by": by}

    def _attribution(self, n: int, rejected: str) -> str:
        other = self.first(
            "SELECT json_extract(other.row, '$.attribution') FROM rows"
            " JOIN rows AS other ON other.question = rows.question AND other.user <> rows.user"
            " WHERE rows.n = ? AND other.text = ? ORDER BY other.n LIMIT 1",
            *(n, text_key(rejected)),
        )
        return str(other[0]).rpartition("; answer: ")[2] if other and other[0] else ""

    def outcomes(self) -> Iterator[dict[str, str | None]]:
        """Yield of every row its names, and which stage left it out for which reason."""
        names = ("id", "split", "user", "rejected_by", "stage", "reason")
        columns = ", ".join(("json_extract(row, '$.id')", *names[1:]))
        for line in self.db.execute(f"SELECT {columns} FROM rows ORDER BY n"):
            yield dict(zip(names, line, strict=True))


ITEMS, TEST, ROWS_TO_ADAPT, SOURCE = "profile items", "test rows", "adapt rows", "source rows"
SORTS = (ITEMS, TEST, ROWS_TO_ADAPT, SOURCE)
PARTS = {"test": TEST, "adapt": ROWS_TO_ADAPT}
NO_TEXT, NO_PROFILE, NO_EARLIER = "empty text", "no earlier text left", "no earlier text"
REPEATED, NO_TEST_ROW = "repeated", "user without a test row"
QUESTION_IN_BOTH, TEXT_IN_BOTH = "question in both splits", "text in both splits"
BEYOND = "beyond --adapt"
UNREADABLE = "cannot be read"
GUARDED = ("question", "source", "chosen")
"""What of a test row no text of its user may give away."""


class RowSelection:
    """Reads entries into a store, and leaves out what gives an answer away."""

    def __init__(
        self, store: OwnTextStore, *, skip_bad_rows: bool, order_as_in_file: bool = False
    ) -> None:
        self.store, self._skip, self._no_dates = store, skip_bad_rows, order_as_in_file
        self.stages: list[Stage] = []
        self.undated = 0
        self.foreign_edits: set[str] = set()
        self._source, self._items = self.stage("reading", SOURCE), self.stage("leaks", ITEMS)
        self._profiles = self.stage("profile", TEST)
        self._to_adapt = self.stage("reading", ROWS_TO_ADAPT)

    def stage(self, name: str, of: str, *reasons: str) -> Stage:
        """Return a stage that follows those before."""
        self.stages.append(Stage(name, of, reasons))
        return self.stages[-1]

    def leave_out(self, stage: Stage, judged: Iterable[tuple[StoredText, str | None]]) -> None:
        """Count stored rows in a stage, and leave out each that comes with a reason."""
        for row, reason in judged:
            if not stage.goes_on(reason):
                self.store.drop(row.n, stage.name, str(reason))

    def reasons(self) -> str:
        """Return in words why rows are missing."""
        counts = dropped_by_row((stage.counts for stage in self.stages), SORTS)
        parts = [
            f"{n:,} {what}: {reason}"
            for what, dropped in counts.items()
            if what != ROWS_TO_ADAPT
            for reason, n in dropped.items()
        ]
        return "; ".join(parts) or "the source is empty"

    def read(self, entries: Entries) -> None:
        """Store every entry; raises the first `DataError` unless bad rows are left out."""
        for entry in entries:
            self._source.goes_on(self._read(entry))
        self.store.run_script(INDEXES)
        self._drop_repeated("test")

    def keep_apart(self) -> None:
        """Leave out adapt rows that share something with a test row, once these are final."""
        self.store.keep_test_keys()
        reasons = QUESTION_IN_BOTH, TEXT_IN_BOTH, NO_TEST_ROW
        apart = self.stage("apart from test rows", ROWS_TO_ADAPT, *reasons)
        self.leave_out(apart, ((row, self._in_both(row)) for row in self.store.texts(ADAPT)))
        self._drop_repeated(ADAPT)
        leaks = self.stage("leaks", ROWS_TO_ADAPT)
        for rows in self.store.by_user(ADAPT):
            tests = self.store.of_user("test", rows[0].user)
            guards = [Guard(*(test.row[name] for name in GUARDED)) for test in tests]
            self.leave_out(leaks, [(row, _adapt_reason(row, tests, guards)) for row in rows])

    def limit(self, most: int) -> None:
        """Leave out all but the latest adapt rows of each user."""
        latest = self.stage("latest", ROWS_TO_ADAPT)
        for rows in self.store.by_user(ADAPT):
            beyond = {row.n for row in oldest_first(rows)[: max(0, len(rows) - most)]}
            self.leave_out(latest, [(row, BEYOND if row.n in beyond else None) for row in rows])

    def _read(self, entry: OwnTextEntry | DataError | Dropped) -> str | None:
        """Store an entry, or return why it cannot be read."""
        try:
            if isinstance(entry, DataError):
                raise entry
            if isinstance(entry, Dropped):
                return entry.reason
            if entry.foreign_edit:
                self.foreign_edits.add(entry.id)
            if self._no_dates:
                earlier = tuple(item._replace(date=None) for item in entry.earlier)
                entry = entry._replace(date=None, earlier=earlier)
            for date in (entry.date, *(item.date for item in entry.earlier)):
                try:
                    instant_of(date)
                except DataError as error:
                    raise DataError(f"{entry.id!r}: {error.problem}", field="date") from None
            self._add(entry)
        except DataError as error:
            if not self._skip:
                raise
            return error.problem if error.line is None else UNREADABLE
        return None

    def _drop_repeated(self, split: str) -> None:
        repeated, store = self.stage("repeated", PARTS[split]), self.store
        rows = store.texts(split)
        self.leave_out(
            repeated, ((row, REPEATED if store.is_repeated(row, split) else None) for row in rows)
        )

    def _in_both(self, row: StoredText) -> str | None:
        if self.store.is_in_test("question", row.question):
            return QUESTION_IN_BOTH
        if self.store.is_in_test("text", row.text):
            return TEXT_IN_BOTH
        return None if self.store.is_in_test("user", row.user) else NO_TEST_ROW

    def _add(self, entry: OwnTextEntry) -> None:
        if entry.split == ADAPT:
            is_new = self._add_to_adapt(entry, entry.id, entry.question, entry)
            self._to_adapt.goes_on(None if is_new else REPEATED)
            return
        if not entry.is_beside and not any(item.text for item in entry.earlier):
            raise DataError(
                f"the user {entry.user!r} of {entry.id!r} has no earlier text", field="profile"
            )
        items = self._safe_items(entry)
        no_profile = None if items else NO_PROFILE if entry.earlier else NO_EARLIER
        if items or entry.is_beside:
            row = columns_of(entry, entry.question, entry)
            row |= {"id": entry.id, "split": "test", "profile": posts_of(items)}
            n = self.store.add(row, entry.id, entry.date)
            if n is None:
                raise DataError(f"the id {entry.id!r} is there twice", field="id")
            if no_profile is not None:
                self.store.drop(n, "profile", no_profile)
        self._profiles.goes_on(no_profile)
        for item in items:
            if item.question and item.source:
                name = item.id or digest(item.source, item.text)[:16]
                # What the profile of another row holds too is not counted twice.
                if self._add_to_adapt(entry, name, item.question, item):
                    self._to_adapt.goes_on()

    def _add_to_adapt(
        self, entry: OwnTextEntry, name: str, question: str, written: OwnTextEntry | EarlierText
    ) -> bool:
        row = {**columns_of(entry, question, written), "split": ADAPT, "profile": []}
        row["id"] = f"adapt-{digest(entry.user, name)[:16]}"
        return self.store.add(row, name, written.date) is not None

    def _safe_items(self, entry: OwnTextEntry) -> list[EarlierText]:
        guard = Guard(entry.question, entry.source, entry.text)

        def reason(item: EarlierText) -> str | None:
            if not item.text:
                return NO_TEXT
            if is_earlier(item.date, entry.date) is False:
                return NOT_EARLIER
            return guard.reason(item.text, item.source)

        items = list(self._items.leave_out(entry.earlier, reason))
        self.undated += sum(is_earlier(item.date, entry.date) is None for item in items)
        return items


def _adapt_reason(row: StoredText, tests: list[StoredText], guards: list[Guard]) -> str | None:
    if any(is_earlier(row.date, test.date) is False for test in tests):
        return NOT_EARLIER
    reasons = (guard.reason(row.row["chosen"], row.row["source"]) for guard in guards)
    return next((reason for reason in reasons if reason), None)


def columns_of(
    entry: OwnTextEntry, question: str, written: OwnTextEntry | EarlierText
) -> dict[str, Any]:
    """Return the columns that hold who wrote what on which question."""
    columns = {"user_id": entry.user, "question": question, "source": written.source}
    columns |= {"chosen": written.text, "reference": written.text}
    known = {"category": entry.category, "date": written.date, "attribution": written.attribution}
    return columns | {name: value for name, value in known.items() if value}


def posts_of(items: Sequence[EarlierText]) -> list[dict[str, str]]:
    """Return a profile; a second post of one id gets a number behind it."""
    posts, names = [], Counter[str]()
    for item in items:
        post = {"text": item.text}
        if item.id:
            names[item.id] += 1
            post["id"] = item.id if names[item.id] == 1 else f"{item.id}-{names[item.id]}"
        if item.date:
            post["date"] = item.date
        posts.append(post)
    return posts
