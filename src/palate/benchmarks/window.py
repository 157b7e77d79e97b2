"""Rows of some days: from one moment on, until another."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import compress
from typing import NamedTuple

from palate.benchmarks.dataset import Dataset, as_mirrored
from palate.errors import BenchmarkError, DataError, UsageError
from palate.records import Question, read_date


class Days(NamedTuple):
    """Two moments in UTC: the first is within, the last is not."""

    since: datetime = datetime.min.replace(tzinfo=UTC)
    until: datetime = datetime.max.replace(tzinfo=UTC)

    @classmethod
    def of(cls, since: str | None, until: str | None) -> Days:
        """Read both ends; raises `UsageError` for what is no day, and where none is between.

        >>> str(Days.of("2026-03-01", "2026-04-01T02:00+02:00"))
        '--since 2026-03-01 --until 2026-04-01'
        """
        given = (("since", since), ("until", until))
        window = cls(**{name: _moment(name, text) for name, text in given if text is not None})
        if window.since >= window.until:
            raise UsageError(f"{window}: the first day is to be before the last, which is not read")
        return window

    def __str__(self) -> str:
        return " ".join(f"--{name} {day}" for name, day in self.written.items())

    @property
    def written(self) -> dict[str, str]:
        """The ends that were given, each moment in one form, so that two forms are one window."""
        return {
            name: moment.isoformat().replace("+00:00", "Z").removesuffix("T00:00:00Z")
            for name, moment in self._asdict().items()
            if moment != self._field_defaults[name]
        }

    def holds(self, row: Question) -> bool:
        """Tell whether a row is within, by the first moment that its date names."""
        return row.instant is not None and self.since <= row.instant.start < self.until


def within(dataset: Dataset, since: str | None = None, until: str | None = None) -> Dataset:
    """Return the rows from `since` on and before `until`; couples whole, where all are mirrored.

    Past choices are those before `until`, whatever `since`. Who is whose stranger stays the same.

    Raises `UsageError` for what is no day, and where no date was read; `BenchmarkError` for rows
    without a date, and where no row is within.
    """
    window = Days.of(since, until)
    if not window.written:
        return dataset
    where = f"{dataset.name}: {window}"
    if dataset.order_as_in_file:
        raise UsageError(f"{where}: no date is read with --order-as-in-file; leave one of them")
    past = dataset.history if until is not None else ()
    dates = {row.id: row.date for row in (*dataset.rows, *dataset.undecided, *past)}
    undated = [name for name, date in dates.items() if date is None]
    if undated:
        raise BenchmarkError(
            f"{where}: {len(undated):,} of {len(dates):,} rows have no date, the first is "
            f"{undated[0]!r}; nobody knows whether they are within"
        )
    inside, mirrored = list(map(window.holds, dataset.rows)), dataset.mirrored
    both = (inside[k] or not mirrored for k in dataset.mirror_rows)
    rows = tuple(compress(dataset.rows, map(all, zip(inside, both, strict=True))))
    if not rows:
        what = "mirrored couple has both rows" if mirrored else "row is"
        days = sorted(str(row.instant.start.date()) for row in dataset.rows if row.instant)
        raise BenchmarkError(f"{where}: no {what} within (rows are of {days[0]} to {days[-1]})")
    before = window._replace(since=Days().since)
    return as_mirrored(
        replace(
            dataset,
            rows=rows,
            window=window.written,
            halves_left_out=sum(inside) - len(rows),
            everyone=(*dataset.everyone, *dataset.rows),
            undecided=tuple(filter(window.holds, dataset.undecided)),
            unrated=tuple(filter(window.holds, dataset.unrated)),
            history=tuple(filter(before.holds, past)) if past else dataset.history,
        )
    )


def _moment(name: str, text: str) -> datetime:
    try:
        return read_date(text).start
    except DataError as error:
        form = "write it as 2026-03-01, or with a time as 2026-03-01T22:10:00Z"
        raise UsageError(f"--{name} {text}: no day that can be read; {form}") from error
