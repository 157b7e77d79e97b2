"""Dates are instants: read, or refused by the form they have."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.errors import DataError
from palate.records import (
    Post,
    PreferencePair,
    Question,
    UserPool,
    choices_of,
    date_text,
    read_date,
)
from palate.records.dates import oldest_first

NOON = datetime(2015, 11, 13, 12, tzinfo=UTC)


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


READ: list[tuple[str, datetime]] = [
    ("2015", at(2015, 1, 1)),
    ("2015-11", at(2015, 11, 1)),
    ("2015-11-13", at(2015, 11, 13)),
    ("2015/11/13", at(2015, 11, 13)),
    ("2015-9-3", at(2015, 9, 3)),
    ("2015-11-13T12:00", NOON),
    ("2015-11-13 12:00:00", NOON),
    ("2015-11-13T12:00:00Z", NOON),
    ("2015-11-13T14:00:00+02:00", NOON),
    ("2015-11-13T07:00:00-0500", NOON),
    ("2015-11-13 12:00:00.250", NOON + timedelta(milliseconds=250)),
    ("2015-11-13T12:00:00.123456789Z", NOON + timedelta(microseconds=123456)),
    ("2015-11-13 12:00:00 UTC", NOON),
    ("1447416000", NOON),
    ("1447416000.0", NOON),
    ("1447416000.5", NOON + timedelta(milliseconds=500)),
    ("1447416000000", NOON),
    ("1447416000000000", NOON),
    ("1447416000000000000", NOON),
    ("Fri, 13 Nov 2015 12:00:00 GMT", NOON),
    ("Fri, 13 Nov 2015 07:00:00 -0500", NOON),
    ("Fri Nov 13 12:00:00 +0000 2015", NOON),
    ("Fri Nov 13 04:00:00 PST 2015", NOON),
    ("Fri Nov 13 12:00:00 2015", NOON),
    ("13 Nov 2015", at(2015, 11, 13)),
    ("November 13, 2015", at(2015, 11, 13)),
    ("Sept. 3, 2015", at(2015, 9, 3)),
]
REFUSED: list[tuple[str, str]] = [
    ("11 13, 2015", "numbers whose year does not come first"),
    ("9/30/2017", "numbers whose year does not come first"),
    ("13.11.2015", "numbers whose year does not come first"),
    ("20151113", "a number that is no year and no seconds or milliseconds since 1970"),
    ("20151113120000", "a number that is no year and no seconds or milliseconds since 1970"),
    ("-86400", "a number that is no year and no seconds or milliseconds since 1970"),
    ("7", "a number that is no year and no seconds or milliseconds since 1970"),
    ("2015-13-01", "no such day or time"),
    ("2015-02-29", "no such day or time"),
    ("2015-11-13T25:00", "no such day or time"),
    ("2015-W46-5", "'2015-W46-5' in it is not understood"),
    ("Fri Nov 13 12:00:00 CEST 2015", "'CEST' in it is not understood"),
    ("Nov 13 2015 10:22 PM", "'PM' in it is not understood"),
    ("13 Nov 15", "'15' in it is not understood"),
    ("Nov 2015", "it lacks a day"),
    ("31 Apr 2015", "no such day or time"),
    ("yesterday", "'yesterday' in it is not understood"),
    ("0001-01-01T00:00+14:00", "no such day or time"),
]


@pytest.mark.parametrize(("text", "instant"), READ)
def test_a_date_is_read(text: str, instant: datetime) -> None:
    assert read_date(text).start == instant
    assert Post(id="1", text="x", date=text).date == text, "kept as it came"


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_is_no_date_is_refused_by_its_form(text: str, why: str) -> None:
    with pytest.raises(DataError, match="is no date that can be read in one way only") as refused:
        read_date(text)
    message = str(refused.value)
    assert why in message and text in message
    assert "2015-11-13T22:10:00Z" in message and "--order-as-in-file" in message
    with pytest.raises(DataError, match="is no date"):
        Post(id="1", text="x", date=text)


def test_every_form_that_is_read_sorts_right() -> None:
    posts = [Post(id=str(k), text="x", date=text) for k, (text, _) in enumerate(READ)]
    right = sorted(range(len(READ)), key=lambda k: READ[k][1])
    assert [int(post.id) for post in oldest_first(posts)] == right
    assert right != sorted(range(len(READ)), key=lambda k: READ[k][0]), "text order is another"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None), ("", None), (float("nan"), None), (1447416000, "1447416000"),
        (1447416000.0, "1447416000"), (2015, "2015"), (" 2015 ", " 2015 "),
        (datetime(2015, 11, 13, 14, tzinfo=timezone(timedelta(hours=2))),
         "2015-11-13T14:00:00+02:00"),
    ],
)  # fmt: skip
def test_what_files_hold_becomes_text(value: object, text: str | None) -> None:
    assert date_text(value) == text


moments = st.datetimes(datetime(1001, 1, 1), datetime(9998, 1, 1))
CUTS = (4, 7, 10, 16, 19, 21, 26)
"""Where ISO's text may end: year, month, day, minute, second, tenth, microsecond."""


@given(moments, moments, st.sampled_from(CUTS), st.sampled_from(CUTS))
def test_iso_dates_compare_as_finely_as_both_are_known(
    first: datetime, second: datetime, cut: int, other: int
) -> None:
    a, b = (
        moment.isoformat(timespec="microseconds")[:n]
        for moment, n in ((first, cut), (second, other))
    )
    shared = min(len(a), len(b))
    assert read_date(a).is_before(read_date(b)) == (a[:shared] < b[:shared])


@given(st.lists(moments, max_size=8), st.sampled_from(CUTS))
def test_iso_dates_of_one_form_sort_as_their_texts_do(listed: list[datetime], cut: int) -> None:
    texts = [moment.isoformat(timespec="microseconds")[:cut] for moment in listed]
    posts = [Post(id=str(k), text="x", date=text) for k, text in enumerate(texts)]
    as_text = sorted(posts, key=lambda post: post.date or "")
    assert list(oldest_first(posts)) == as_text


@given(st.datetimes(datetime(1974, 1, 1), datetime(2286, 1, 1)), st.sampled_from([1, 10**3, 10**6]))
def test_numbers_are_told_apart_by_their_size(moment: datetime, parts: int) -> None:
    micro = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    number = micro * parts // 10**6
    read = read_date(str(number))
    assert timedelta(0) <= moment.replace(tzinfo=UTC) - read.start < read.length


def test_choices_that_are_all_dated_stand_oldest_first() -> None:
    def pair(name: str, date: str | None) -> PreferencePair:
        return PreferencePair(
            id=name, user_id="ann", text=name, chosen="Green.", rejected="Black.", date=date
        )

    dates = {"a": "9 Nov 2015", "b": "2014", "c": "1447416000"}
    dated = [pair(name, date) for name, date in dates.items()]
    assert [choice.question for choice in choices_of(dated)["ann"]] == ["b", "a", "c"]
    dated.append(pair("d", None))
    assert [choice.question for choice in choices_of(dated)["ann"]] == ["a", "b", "c", "d"]


def test_a_users_posts_over_all_rows_stand_by_instant() -> None:
    late = Post(id="1", text="late", date="2017-09-30")
    early = Post(id="2", text="early", date="Mon, 06 Apr 2009 22:19:45 -0700")
    rows = [Question(id=str(k), user_id="ann", text="Tea?", profile=(post,))
            for k, post in enumerate((late, early))]  # fmt: skip
    assert [post.text for post in UserPool.of(rows).users["ann"].posts] == ["early", "late"]
