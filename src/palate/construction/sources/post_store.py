"""Users' posts in a private database: which of them are earlier, and what they say."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from palate.construction.leaks import text_key
from palate.construction.private_database import microseconds, private_database
from palate.construction.sources.html import text_of_html
from palate.construction.stage import Dropped, Stage
from palate.errors import DataError
from palate.records import Post
from palate.records.dates import UNREAD, read_date

POSTS, UNREADABLE = "posts", "cannot be read"
MOST_POSTS = 500
"""Of a user's earlier posts the latest so many stand in a profile."""
TABLES = """
CREATE TABLE users (n INTEGER PRIMARY KEY, id TEXT UNIQUE, name TEXT, first INTEGER, ever INTEGER);
CREATE TABLE posts (
  n INTEGER PRIMARY KEY, id TEXT UNIQUE, user INTEGER, parent TEXT, title TEXT, title_key BLOB,
  text TEXT, is_html INTEGER, date TEXT, start INTEGER, end INTEGER, settled INTEGER,
  category TEXT, attribution TEXT
);
"""
INDEXES = """
CREATE INDEX by_user ON posts (user, settled);
CREATE INDEX by_title ON posts (title_key) WHERE title_key IS NOT NULL;
UPDATE users SET (first, ever) = (SELECT min(settled), min(end) FROM posts WHERE user = users.n);
"""
COLUMNS = """
SELECT post.n, post.user, post.start, {post}, {user}, post.parent, post.title, post.text, post.date,
  coalesce(nullif(post.category, ''), question.category, ''),
  coalesce(users.name || ' (' || post.attribution || ')', post.attribution), post.is_html
FROM posts AS post LEFT JOIN users ON users.n = post.user
LEFT JOIN posts AS question ON question.id = post.parent
"""
"""The fields of a `StoredPost`, then what its text is made with."""
ADD = """
INSERT OR IGNORE INTO posts (id, user, parent, title, title_key, text, is_html, date, start, end,
  settled, category, attribution)
VALUES (:id, (SELECT n FROM users WHERE id = :user), :parent, :title, :title_key, :text, :is_html,
  :date, :start, :end, :settled, :category, :attribution)
"""


class PostRow(NamedTuple):
    """A post as a layout reads it; one with a title is a question."""

    place: tuple[str, int]
    """File and line."""
    id: str
    user: str | None
    """None where the author is gone."""
    text: str
    date: str
    title: str | None = None
    parent: str | None = None
    """The question that it answers."""
    edited: str | None = None
    category: str = ""
    attribution: str = ""
    is_html: bool = False


Row = PostRow | Dropped | DataError
"""What a layout yields: posts, what is none, and the errors of rows that cannot be read."""


class StoredPost(NamedTuple):
    """A post of the store; its text has no markup."""

    n: int
    user: int | None
    start: int
    id: str
    user_id: str | None
    parent: str | None
    title: str | None
    text: str
    date: str
    category: str
    attribution: str
    """Author and licence, as far as they are known."""

    @property
    def full_text(self) -> str:
        """A question's title and body, or the text."""
        return f"{self.title}\n\n{self.text}".rstrip() if self.title else self.text

    @property
    def post(self) -> Post:
        """The post as it stands in a profile."""
        return Post(id=self.id, category=self.category, text=self.full_text, date=self.date)


class PostStore:
    """Posts of all users, found by number, by user and by title.

    Times are microseconds since 1970. A post settles when its date, or the date of its last edit,
    is over: it may stand beside what starts then or later. Users and posts are named by their
    numbers, in order of appearance, unless `keep_ids`.
    """

    def __init__(self, *, keep_ids: bool) -> None:
        names = (
            ("post.id", "users.id")
            if keep_ids
            else ("CAST(post.n AS TEXT)", "CAST(users.n AS TEXT)")
        )
        self._columns = COLUMNS.format(post=names[0], user=names[1])
        self.db = private_database(TABLES)

    def close(self) -> None:
        """Take the file away."""
        self.db.close()

    def read(
        self,
        rows: Iterable[Row],
        names: Iterable[tuple[str, str]] = (),
        *,
        bad_rows: list[DataError] | None,
    ) -> Stage[Row, PostRow]:
        """Store posts and their users' names; return what became of the posts.

        Raises the first `DataError`, unless `bad_rows` takes them.
        """

        def work(rows: Iterator[Row]) -> Iterator[PostRow | Dropped]:
            for row in rows:
                try:
                    if isinstance(row, DataError):
                        raise row
                    if isinstance(row, PostRow):
                        self._add(row)
                    yield row
                except DataError as error:
                    if bad_rows is None:
                        raise
                    bad_rows.append(error)
                    yield Dropped(UNREADABLE)

        stage: Stage[Row, PostRow] = Stage("reading", POSTS, work)
        deque(stage.run(rows), maxlen=0)
        self.db.executescript(INDEXES)
        self.db.execute("BEGIN")
        self.db.executemany("UPDATE users SET name = ?2 WHERE id = ?1", names)
        return stage

    def posts(self, condition: str, *values: object, most: int = -1) -> list[StoredPost]:
        """Return the posts of which an SQL condition on `post` holds, oldest first.

        Of more than `most` the latest. HTML is converted once, when a post is first returned.
        """
        newest = (
            f"{self._columns} WHERE {condition} ORDER BY post.start DESC, post.n DESC LIMIT {most}"
        )
        return [self._stored(line) for line in reversed(self.db.execute(newest, values).fetchall())]

    def get(self, n: int) -> StoredPost:
        """Return the post of a number."""
        return self.posts("post.n = ?", n)[0]

    def earlier(self, user: int | None, start: int) -> list[StoredPost]:
        """Return what a user wrote before a moment and did not edit after it."""
        return self.posts("post.user = ? AND post.settled <= ?", user, start, most=MOST_POSTS)

    def _add(self, row: PostRow) -> None:
        file, line = row.place
        field = "date"
        try:
            written = edited = read_date(row.date)
            if row.edited:
                field = "edited"
                edited = read_date(row.edited)
        except DataError as error:
            problem = error.problem.replace(UNREAD, "")  # sources are read by their dates
            raise DataError(problem, file=file, line=line, field=field) from None
        end = microseconds(written.start + written.length)
        if row.user is not None:
            self.db.execute("INSERT OR IGNORE INTO users (id) VALUES (?)", (row.user,))
        times = {
            "start": microseconds(written.start),
            "end": end,
            "settled": max(end, microseconds(edited.start + edited.length)),
        }
        title_key = row.title and text_key(row.title)
        new = self.db.execute(ADD, row._asdict() | times | {"title_key": title_key})
        if not new.rowcount:
            raise DataError(f"{row.id!r} is there twice", file=file, line=line, field="id")

    def _stored(self, line: tuple[Any, ...]) -> StoredPost:
        *fields, is_html = line
        post = StoredPost(*fields)
        if is_html:
            post = post._replace(text=text_of_html(post.text))
            self.db.execute(
                "UPDATE posts SET text = ?, is_html = 0 WHERE n = ?", (post.text, post.n)
            )
        return post


def attribution(written: Iterable[StoredPost]) -> str:
    """Return authors and licences of posts."""
    return "; ".join(dict.fromkeys(post.attribution for post in written if post.attribution))
