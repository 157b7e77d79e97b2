"""A second file of what users wrote: `user_id, text, date`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from palate.data.layouts.known_columns import Peek, who_column
from palate.data.layouts.layout import Numbered
from palate.data.types import is_missing, tidied
from palate.errors import DataError
from palate.records import DistinctNames
from palate.records.dates import date_text, read_date

TEXT = ("text", "post", "content", "body", "comment", "review", "message")
Posts = Mapping[str, list[dict[str, Any]]]
"""By user, what they wrote, in the file's order."""


def posts_of(rows: Iterable[Numbered], source: str, *, dated: bool = True) -> Posts:
    """Return each user's posts; where `dated`, their dates are to be dates.

    Raises `DataError` for a row without user or text, and for what is no date.

    >>> posts_of(iter([(1, {"user_id": 7.0, "text": "I like tea.", "date": "2026"})]), "p.csv")
    {'7': [{'date': '2026', 'text': 'I like tea.'}]}
    """
    numbered = list(rows)
    peek = Peek.of(row for _, row in numbered)
    who = who_column(peek)
    text = peek.first([name for name in TEXT if name != who])
    if who is None or text is None:
        what = "user (user_id)" if who is None else "text"
        have = ", ".join(peek.columns) or "none"
        raise DataError(f"no column of the {what}; the rows have {have}", file=source)
    posts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number, row in numbered:
        if isinstance(row, DataError):
            raise DataError(row.problem, file=source, line=number, field=row.field)
        for name in (who, text):
            if is_missing(row.get(name)) or row.get(name) in (None, ""):
                raise DataError("missing", file=source, line=number, field=name)
        user = tidied({"user_id": row[who]})["user_id"]
        try:
            if dated and (day := date_text(row.get("date"))) is not None:
                read_date(day)
        except DataError as error:
            raise DataError(error.problem, file=source, line=number, field="date") from None
        more = {n: row[n] for n in ("id", "category", "date") if row.get(n) not in (None, "")}
        posts[str(user)].append({**more, "text": row[text]})
    return dict(posts)


class WithPosts:
    """Rows with the posts of a second file as their profile; counts the users that it knows.

    A row that names no user is its own user, as everywhere: its id is looked up.
    """

    def __init__(self, rows: Iterator[Numbered], posts: Posts, source: str) -> None:
        self.rows, self.posts, self.source = rows, posts, source
        self.users: set[str] = set()
        self.unknown: set[str] = set()
        self.names = DistinctNames()
        for user in posts:
            self.names.add("user", user, source)

    def __iter__(self) -> Iterator[Numbered]:
        """Yield the rows; one that holds posts of its own is a bad row.

        Raises `DataError` where no user of the rows is in the second file, and where two users' ids
        differ in nothing but their form.
        """
        for number, row in self.rows:
            if not isinstance(row, Mapping):
                yield number, row
                continue
            if row.get("profile"):
                yield (
                    number,
                    DataError("holds posts, and --posts too: which are meant?", field="profile"),
                )
                continue
            named = tidied({name: row.get(name) for name in ("user_id", "id")})
            user = str(named["id"] if named["user_id"] is None else named["user_id"])
            self.names.add("user", user, f"row {number} of the data")
            (self.users if user in self.posts else self.unknown).add(user)
            yield number, {**row, "profile": self.posts.get(user, [])}
        if not self.users:
            first = next(iter(sorted(self.unknown)), "none")
            raise DataError(
                f"no user of the rows has a post there (rows: {first!r}, posts: "
                f"{next(iter(self.posts), 'none')!r})",
                file=self.source,
            )
