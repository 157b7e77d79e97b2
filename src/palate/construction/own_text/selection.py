"""Which rows and texts stay, and how many are left out for which reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from palate.construction.own_text.entries import ADAPT, EarlierText, Entries, OwnTextEntry
from palate.construction.own_text.leaks import NOT_EARLIER, Guard, is_earlier
from palate.construction.own_text.spool import Spool, Spooled
from palate.errors import DataError
from palate.records.dates import instant_of, oldest_first
from palate.seeding import digest

ITEMS, TEST, ROWS_TO_ADAPT, BAD = "profile items", "test rows", "adapt rows", "bad rows"
PARTS = {"test": TEST, "adapt": ROWS_TO_ADAPT}
NO_TEXT, NO_PROFILE = "empty text", "no earlier text left"
REPEATED, NO_TEST_ROW = "repeated", "user without a test row"
QUESTION_IN_BOTH, TEXT_IN_BOTH = "question in both splits", "text in both splits"
BEYOND = "beyond --adapt"


class RowSelection:
    """Reads entries into a spool, and leaves out what gives an answer away."""

    def __init__(
        self, spool: Spool, *, skip_bad_rows: bool, order_as_in_file: bool = False
    ) -> None:
        self._spool, self._skip = spool, skip_bad_rows
        self._no_dates = order_as_in_file
        self._counts: dict[str, Counter[str]] = {
            name: Counter() for name in (ITEMS, TEST, ROWS_TO_ADAPT, BAD)
        }
        self.undated = 0

    def count(self, split: str, reasons: Mapping[str, int]) -> None:
        """Note how many rows of a split were left out."""
        self._counts[PARTS[split]].update(reasons)

    def dropped(self) -> dict[str, dict[str, int]]:
        """Return how many were left out, by what and for which reason."""
        return {
            what: {reason: n for reason, n in counts.items() if n}
            for what, counts in self._counts.items()
        }

    def reasons(self) -> str:
        """Return in words why rows are missing."""
        parts = [
            f"{n:,} {what}: {reason}"
            for what, counts in self.dropped().items()
            if what != ROWS_TO_ADAPT
            for reason, n in counts.items()
        ]
        return "; ".join(parts) or "the source is empty"

    def read(self, entries: Entries) -> None:
        """Spool every entry; raises the first `DataError` unless bad rows are left out."""
        for entry in entries:
            try:
                if isinstance(entry, DataError):
                    raise entry
                self._add(_undated(entry) if self._no_dates else _with_dates_read(entry))
            except DataError as error:
                if not self._skip:
                    raise
                self._counts[BAD][error.problem if error.line is None else "cannot be read"] += 1
        self._spool.index()
        self._counts[TEST][REPEATED] += self._spool.drop_repeated("test")

    def keep_apart(self) -> None:
        """Leave out adapt rows that share something with a test row, once these are final."""
        spool, counts = self._spool, self._counts[ROWS_TO_ADAPT]
        spool.keep_test_texts()
        in_test = "SELECT {} FROM rows WHERE split = 'test' AND kept"
        counts[QUESTION_IN_BOTH] += spool.drop_where(f"question IN ({in_test.format('question')})")
        counts[TEXT_IN_BOTH] += spool.drop_where("text IN (SELECT key FROM test_texts)")
        counts[NO_TEST_ROW] += spool.drop_where(f"user NOT IN ({in_test.format('user')})")
        counts[REPEATED] += spool.drop_repeated(ADAPT)
        for user in spool.users():
            tests = spool.of_user("test", user)
            guards = [Guard(row.row["question"], row.source, row.row["chosen"]) for row in tests]
            for row in spool.of_user(ADAPT, user):
                if reason := _reason(row, tests, guards):
                    spool.drop([row.n])
                    counts[reason] += 1

    def limit(self, most: int) -> None:
        """Leave out all but the latest adapt rows of each user."""
        for user in self._spool.users():
            rows = oldest_first(self._spool.of_user(ADAPT, user))
            beyond = [row.n for row in rows[: max(0, len(rows) - most)]]
            self._spool.drop(beyond)
            self._counts[ROWS_TO_ADAPT][BEYOND] += len(beyond)

    def _add(self, entry: OwnTextEntry) -> None:
        if entry.split == ADAPT:
            if not self._add_to_adapt(entry, entry.id, entry.question, entry.source, entry):
                self._counts[ROWS_TO_ADAPT][REPEATED] += 1
            return
        if not any(item.text for item in entry.earlier):
            raise DataError(
                f"the user {entry.user!r} of {entry.id!r} has no earlier text", field="profile"
            )
        items = list(self._safe(entry))
        if not items:
            self._counts[TEST][NO_PROFILE] += 1
            return
        row = {
            **_columns(entry, entry.question, entry),
            "id": entry.id,
            "split": "test",
            "profile": _posts(items),
        }
        if not self._spool.add(row, entry.id, entry.source, entry.date):
            raise DataError(f"the id {entry.id!r} is there twice", field="id")
        for item in items:
            if item.question and item.source:
                name = item.id or digest(item.source, item.text)[:16]
                self._add_to_adapt(entry, name, item.question, item.source, item)

    def _add_to_adapt(
        self,
        entry: OwnTextEntry,
        name: str,
        question: str,
        source: str,
        written: OwnTextEntry | EarlierText,
    ) -> bool:
        row = {
            **_columns(entry, question, written),
            "split": ADAPT,
            "profile": [],
            "id": f"adapt-{digest(entry.user, name)[:16]}",
        }
        return self._spool.add(row, name, source, written.date)

    def _safe(self, entry: OwnTextEntry) -> Iterator[EarlierText]:
        guard, counts = Guard(entry.question, entry.source, entry.text), self._counts[ITEMS]
        for item in entry.earlier:
            earlier = is_earlier(item.date, entry.date)
            reason = NO_TEXT if not item.text else NOT_EARLIER if earlier is False else None
            reason = reason or guard.reason(item.text, item.source)
            if reason:
                counts[reason] += 1
                continue
            self.undated += earlier is None
            yield item


def _undated(entry: OwnTextEntry) -> OwnTextEntry:
    return entry._replace(
        date=None, earlier=tuple(item._replace(date=None) for item in entry.earlier)
    )


def _with_dates_read(entry: OwnTextEntry) -> OwnTextEntry:
    for written in (entry.date, *(item.date for item in entry.earlier)):
        try:
            instant_of(written)
        except DataError as error:
            raise DataError(f"{entry.id!r}: {error.problem}", field="date") from None
    return entry


def _reason(row: Spooled, tests: list[Spooled], guards: list[Guard]) -> str | None:
    if any(is_earlier(row.date, test.date) is False for test in tests):
        return NOT_EARLIER
    reasons = (guard.reason(row.row["chosen"], row.source) for guard in guards)
    return next((reason for reason in reasons if reason), None)


def _columns(
    entry: OwnTextEntry, question: str, written: OwnTextEntry | EarlierText
) -> dict[str, Any]:
    columns = {
        "user_id": entry.user,
        "question": question,
        "chosen": written.text,
        "reference": written.text,
    }
    known = {"category": entry.category, "date": written.date}
    return columns | {name: value for name, value in known.items() if value}


def _posts(items: list[EarlierText]) -> list[dict[str, str]]:
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
