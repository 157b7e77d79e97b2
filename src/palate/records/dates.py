"""A date is an instant: read once from what files hold, and never compared as text."""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Annotated, NamedTuple, Protocol, TypeVar

from pydantic import AfterValidator

from palate.errors import DataError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ISO = re.compile(
    r"(?P<year>\d{4})(?:(?P<by>[-/.])(?P<month>\d\d?)(?:(?P=by)(?P<day>\d\d?)"
    r"(?:[Tt ](?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<part>\d+))?)?"
    r" ?(?P<zone>[Zz]|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?|UTC|GMT)?)?)?)?"
)
CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d))?")
OFFSET = re.compile(r"([+-])([01]\d|2[0-3])(?::?([0-5]\d))?")
NUMBER = re.compile(r"-?\d+(?:\.\d*)?")
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
US_ZONES = {"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7}
ZONES = {"z": 0, "ut": 0, "utc": 0, "gmt": 0, **US_ZONES}
"""Hours from UTC of the names that RFC 2822 gives a meaning; others stand for several zones."""
UNITS = (10**8, 1), (10**11, 10**3), (10**14, 10**6), (10**17, 10**9)
"""Least number and parts of a second: a number counts from 1970 in the unit in which it is a date
of 1973 to 2286; what lies between the units, such as 20150204, could be several dates."""
UNREAD = "; or keep the order of the file with --order-as-in-file"
ADVICE = (
    "write it as 2015-11-13, with a time as 2015-11-13T22:10:00Z or as seconds since 1970" + UNREAD
)


class Instant(NamedTuple):
    """When something was written, as exactly as its date says."""

    start: datetime
    """In UTC; of a year, a month or a day its first moment."""
    length: timedelta
    """How long what the date names lasts: a year, a day, a second, …"""

    def is_before(self, other: Instant) -> bool:
        """Tell whether it is over when the other begins: a day is not before its own year.

        >>> read_date("2012").is_before(read_date("2013-05-01"))
        True
        >>> read_date("2013").is_before(read_date("2013-05-01"))
        False
        """
        return other.start - self.start >= self.length


class _Dated(Protocol):
    @property
    def instant(self) -> Instant | None: ...


D = TypeVar("D", bound=_Dated)


@lru_cache(maxsize=4096)
def read_date(text: str) -> Instant:
    """Read a date: ISO 8601, a month written as a word (RFC 2822, `date`), or a number since 1970.

    Without an offset a time is one of UTC. A number of four digits is a year; seconds, milli-,
    micro- and nanoseconds are told apart by their size. Raises `DataError` with the form of what is
    no date, or could be several.

    >>> read_date("2009-04-07T07:19:45+02:00").start.isoformat()
    '2009-04-07T05:19:45+00:00'
    >>> read_date("Mon Apr 06 22:19:45 PDT 2009").start == read_date("1239081585").start
    True
    >>> read_date("9/30/2017")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    palate.errors.DataError: '9/30/2017' is no date that can be read in one way only (numbers ...
    """
    plain = text.strip()
    try:
        if parts := ISO.fullmatch(plain):
            return _of_iso(parts)
        if NUMBER.fullmatch(plain):
            return _of_number(plain, text)
        if any(character.isalpha() for character in plain):
            return _of_words(plain, text)
    except (ValueError, OverflowError) as error:
        raise _no_date(text, f"there is no such day or time: {error}") from error
    raise _no_date(text, "numbers whose year does not come first")


def date_text(value: object) -> str | None:
    """Return a date of a file as text, which is kept as it came; None where there is none.

    A Parquet date or time becomes ISO text, a number its digits. Raises `DataError` for what is
    neither text nor number; whether a text is a date, `read_date` tells.

    >>> date_text(date(2024, 1, 2)), date_text(1425254400.0), date_text(""), date_text(None)
    ('2024-01-02', '1425254400', None, None)
    """
    if value is None or value == "" or value != value:  # noqa: PLR0124 (NaN and NaT)
        return None
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        kind = type(value).__name__
        raise DataError(f"expected a date as text or number, got {kind}")
    if isinstance(value, str) and not value.strip():
        raise DataError("expected a date, got an empty string")
    return str(value)


def _checked(text: str) -> str:
    read_date(text)
    return text


DateText = Annotated[str, AfterValidator(_checked)]
"""A date as it came; a record with one that is no date raises `DataError`."""


def instant_of(text: str | None) -> Instant | None:
    """Return when a date is; None without one."""
    return None if text is None else read_date(text)


def oldest_first(items: Iterable[D]) -> tuple[D, ...]:
    """Return what is dated, oldest first, ties as given; where one has no date, all as given."""
    items = tuple(items)
    starts = [item.instant.start for item in items if item.instant is not None]
    if len(starts) < len(items):
        return items
    return tuple(items[k] for k in sorted(range(len(items)), key=starts.__getitem__))


def _of_iso(parts: re.Match[str]) -> Instant:
    year, month, day = (int(parts[name] or 1) for name in ("year", "month", "day"))
    if parts["month"] is None:
        return Instant(datetime(year, 1, 1, tzinfo=UTC), timedelta(365 + isleap(year)))
    if parts["day"] is None:
        days = monthrange(year, month)[1]
        return Instant(datetime(year, month, 1, tzinfo=UTC), timedelta(days))
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    to_the_minute = timedelta(1) if parts["hour"] is None else timedelta(minutes=1)
    length = to_the_minute if parts["second"] is None else timedelta(seconds=1)
    fraction = (parts["part"] or "")[:6]
    if fraction:
        length = timedelta(microseconds=10 ** (6 - len(fraction)))
    micro = int(fraction.ljust(6, "0"))
    start = datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)
    return Instant(start - _offset(parts["zone"] or "Z"), length)


def _of_number(plain: str, text: str) -> Instant:
    whole, _, fraction = plain.partition(".")
    number = int(whole)
    if len(whole) == 4 and not fraction.strip("0"):
        return read_date(whole)
    for least, parts in UNITS:
        if least <= number < 100 * least:
            micro = (number * 10**6 + int(fraction[:6].ljust(6, "0"))) // parts
            finest = max(1, 10**6 // parts // 10 ** len(fraction))
            return Instant(EPOCH + timedelta(microseconds=micro), timedelta(microseconds=finest))
    raise _no_date(text, "a number that is no year and no seconds or milliseconds since 1970")


def _of_words(plain: str, text: str) -> Instant:
    # A month that is a word, a year of four digits, a day of one or two: in any order one date.
    month = day = year = clock = zone = None
    for word in plain.replace(",", " ").split():
        lower = word.lower()
        offset = _offset(lower) if lower in ZONES or OFFSET.fullmatch(lower) else None
        if _named(lower, DAYS) is not None:
            continue
        if month is None and (place := _named(lower, MONTHS)) is not None:
            month = place + 1
        elif day is None and re.fullmatch(r"\d\d?", word):
            day = int(word)
        elif year is None and re.fullmatch(r"\d{4}", word):
            year = int(word)
        elif clock is None and (match := CLOCK.fullmatch(word)):
            clock = match
        elif clock is not None and zone is None and offset is not None:
            zone = offset
        else:
            raise _no_date(text, f"{word!r} in it is not understood")
    if month is None or day is None or year is None:
        raise _no_date(text, "it lacks a day, a month or a year")
    time = "" if clock is None else f"T{clock[0]}"
    parts = ISO.fullmatch(f"{year:04}-{month}-{day}{time}")
    assert parts is not None
    start, length = _of_iso(parts)
    return Instant(start - (zone or timedelta(0)), length)


def _named(word: str, names: tuple[str, ...]) -> int | None:
    plain = word.rstrip(".")
    if len(plain) < 3:
        return None
    return next((k for k, name in enumerate(names) if name.startswith(plain)), None)


def _offset(zone: str) -> timedelta:
    if parts := OFFSET.fullmatch(zone):
        away = timedelta(hours=int(parts[2]), minutes=int(parts[3] or 0))
        return -away if parts[1] == "-" else away
    return timedelta(hours=ZONES[zone.lower()])


def _no_date(text: str, why: str) -> DataError:
    shown = repr(text if len(text) <= 60 else f"{text[:57]}...")
    return DataError(f"{shown} is no date that can be read in one way only ({why}); {ADVICE}")
