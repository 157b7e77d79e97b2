"""Which rows and texts stay, as stages: every one that is left out has a reason."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from palate.construction.leaks import NOT_EARLIER, Guard, is_earlier
from palate.construction.own_text.entries import ADAPT, EarlierText, Entries, OwnTextEntry
from palate.construction.own_text.posts import columns_of, posts_of
from palate.construction.own_text.spool import RowKeys, Spool, Spooled
from palate.construction.stage import Dropped, Stage, dropped_by_row
from palate.errors import DataError
from palate.records.dates import instant_of, oldest_first
from palate.seeding import digest

ITEMS, TEST, ROWS_TO_ADAPT, SOURCE = "profile items", "test rows", "adapt rows", "source rows"
SORTS = (ITEMS, TEST, ROWS_TO_ADAPT, SOURCE)
PARTS = {"test": TEST, "adapt": ROWS_TO_ADAPT}
NO_TEXT, NO_PROFILE, NO_EARLIER = "empty text", "no earlier text left", "no earlier text"
REPEATED, NO_TEST_ROW = "repeated", "user without a test row"
QUESTION_IN_BOTH, TEXT_IN_BOTH = "question in both splits", "text in both splits"
BEYOND = "beyond --adapt"
UNREADABLE = "cannot be read"
S = TypeVar("S", bound=RowKeys | Spooled)


class ReadEntry(NamedTuple):
    """An entry whose texts are in the spool."""

    is_test: bool
    no_profile: str | None
    """Why it has none."""
    to_adapt: tuple[bool, ...]
    """Of each text to adapt to, whether it is new; a profile's that others hold are not counted."""


class ProfileItem(NamedTuple):
    """An earlier text beside the entry in whose profile it stands."""

    item: EarlierText
    entry: OwnTextEntry
    guard: Guard


class RowSelection:
    """Reads entries into a spool, and leaves out what gives an answer away."""

    def __init__(
        self, spool: Spool, *, skip_bad_rows: bool, order_as_in_file: bool = False
    ) -> None:
        self._spool, self._skip = spool, skip_bad_rows
        self._no_dates = order_as_in_file
        self.stages: list[Stage[Any, Any]] = []
        self.undated = 0
        self._source = self._begun(Stage("reading", SOURCE, self._read))
        self._items = self._begun(Stage.by_reason("leaks", ITEMS, _item_reason))

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
        """Spool every entry; raises the first `DataError` unless bad rows are left out."""
        profiles = self._begun(Stage.by_reason("profile", TEST, lambda entry: entry.no_profile))
        adapt = self._begun(
            Stage.by_reason("reading", ROWS_TO_ADAPT, lambda is_new: None if is_new else REPEATED)
        )
        for entry in self._source.run(entries):
            consume(profiles.run([entry] if entry.is_test else []))
            consume(adapt.run(entry.to_adapt))
        self._spool.index()
        self._drop_repeated("test")

    def keep_apart(self) -> None:
        """Leave out adapt rows that share something with a test row, once these are final."""
        spool = self._spool
        spool.keep_test_keys()
        apart = Stage.by_reason(
            "apart from test rows",
            ROWS_TO_ADAPT,
            self._in_both,
            reasons=(QUESTION_IN_BOTH, TEXT_IN_BOTH, NO_TEST_ROW),
        )
        self.run(apart, spool.keys(ADAPT))
        self._drop_repeated(ADAPT)
        self.run(Stage("leaks", ROWS_TO_ADAPT, self._without_leaks), spool.by_user(ADAPT))

    def limit(self, most: int) -> None:
        """Leave out all but the latest adapt rows of each user."""

        def work(rows: Iterator[Spooled]) -> Iterator[Spooled | Dropped]:
            for _, group in groupby(rows, attrgetter("user")):
                of_user = list(group)
                oldest = oldest_first(of_user)[: max(0, len(of_user) - most)]
                beyond = {row.n for row in oldest}
                yield from (Dropped(BEYOND) if row.n in beyond else row for row in of_user)

        self.run(Stage("latest", ROWS_TO_ADAPT, work), self._spool.by_user(ADAPT))

    def run(self, stage: Stage[S, S], rows: Iterable[S]) -> None:
        """Send spooled rows through a stage, and leave out what it drops."""
        self._begun(stage)
        for row, outcome in stage.outcomes(rows):
            if isinstance(outcome, Dropped):
                self._spool.drop(row.n, stage.name, outcome.reason)

    def _begun(self, stage: Stage[Any, Any]) -> Stage[Any, Any]:
        self.stages.append(stage)
        return stage

    def _read(self, entries: Iterator[OwnTextEntry | DataError]) -> Iterator[ReadEntry | Dropped]:
        for entry in entries:
            try:
                if isinstance(entry, DataError):
                    raise entry
                if isinstance(entry, Dropped):
                    yield entry
                    continue
                yield self._add(_undated(entry) if self._no_dates else _with_dates_read(entry))
            except DataError as error:
                if not self._skip:
                    raise
                yield Dropped(error.problem if error.line is None else UNREADABLE)

    def _drop_repeated(self, split: str) -> None:
        def reason(row: RowKeys) -> str | None:
            return REPEATED if self._spool.is_repeated(row, split) else None

        stage = Stage.by_reason("repeated", PARTS[split], reason)
        self.run(stage, self._spool.keys(split))

    def _in_both(self, row: RowKeys) -> str | None:
        spool = self._spool
        if spool.is_in_test("question", row.question):
            return QUESTION_IN_BOTH
        if spool.is_in_test("text", row.text):
            return TEXT_IN_BOTH
        return None if spool.is_in_test("user", row.user) else NO_TEST_ROW

    def _without_leaks(self, rows: Iterator[Spooled]) -> Iterator[Spooled | Dropped]:
        for user, group in groupby(rows, attrgetter("user")):
            tests = self._spool.of_user("test", user)
            guards = [Guard(row.row["question"], row.source, row.row["chosen"]) for row in tests]
            for row in group:
                reason = _adapt_reason(row, tests, guards)
                yield Dropped(reason) if reason else row

    def _add(self, entry: OwnTextEntry) -> ReadEntry:
        if entry.split == ADAPT:
            new = self._add_to_adapt(entry, entry.id, entry.question, entry.source, entry)
            return ReadEntry(is_test=False, no_profile=None, to_adapt=(new,))
        if not entry.is_beside and not any(item.text for item in entry.earlier):
            raise DataError(
                f"the user {entry.user!r} of {entry.id!r} has no earlier text", field="profile"
            )
        items = self._safe_items(entry)
        no_profile = None if items else NO_PROFILE if entry.earlier else NO_EARLIER
        if items or entry.is_beside:
            row = {
                **columns_of(entry, entry.question, entry),
                "id": entry.id,
                "split": "test",
                "profile": posts_of(items),
            }
            n = self._spool.add(row, entry.id, entry.source, entry.date)
            if n is None:
                raise DataError(f"the id {entry.id!r} is there twice", field="id")
            if no_profile is not None:
                self._spool.drop(n, "profile", no_profile)
        n_new = 0
        for item in items:
            if item.question and item.source:
                name = item.id or digest(item.source, item.text)[:16]
                n_new += self._add_to_adapt(entry, name, item.question, item.source, item)
        return ReadEntry(is_test=True, no_profile=no_profile, to_adapt=(True,) * n_new)

    def _add_to_adapt(
        self,
        entry: OwnTextEntry,
        name: str,
        question: str,
        source: str,
        written: OwnTextEntry | EarlierText,
    ) -> bool:
        row = {
            **columns_of(entry, question, written),
            "split": ADAPT,
            "profile": [],
            "id": f"adapt-{digest(entry.user, name)[:16]}",
        }
        return self._spool.add(row, name, source, written.date) is not None

    def _safe_items(self, entry: OwnTextEntry) -> list[EarlierText]:
        guard = Guard(entry.question, entry.source, entry.text)
        rows = (ProfileItem(item, entry, guard) for item in entry.earlier)
        items = [row.item for row in self._items.run(rows)]
        self.undated += sum(is_earlier(item.date, entry.date) is None for item in items)
        return items


def consume(rows: Iterable[object]) -> None:
    """Read all rows for what reading them does."""
    deque(rows, maxlen=0)


def _item_reason(row: ProfileItem) -> str | None:
    item = row.item
    if not item.text:
        return NO_TEXT
    if is_earlier(item.date, row.entry.date) is False:
        return NOT_EARLIER
    return row.guard.reason(item.text, item.source)


def _adapt_reason(row: Spooled, tests: list[Spooled], guards: list[Guard]) -> str | None:
    if any(is_earlier(row.date, test.date) is False for test in tests):
        return NOT_EARLIER
    reasons = (guard.reason(row.row["chosen"], row.source) for guard in guards)
    return next((reason for reason in reasons if reason), None)


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
