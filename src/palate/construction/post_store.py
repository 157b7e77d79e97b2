"""Users' posts in a private database: which of them are earlier, and what they say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from palate.construction.leaks import text_key
from palate.construction.rows import Dropped, RowStore, Stage, microseconds
from palate.errors import DataError, needing
from palate.records import Post
from palate.records.dates import UNREAD, read_date

POSTS, UNREADABLE, NO_AUTHOR = "posts", "cannot be read", "the author is gone"
MOST_POSTS = 500
"""Of a user's earlier posts the latest so many stand in a profile."""
TABLES = """
CREATE TABLE users (n INTEGER PRIMARY KEY, id TEXT UNIQUE, name TEXT, first INTEGER, ever INTEGER);
CREATE TABLE posts (
  n INTEGER PRIMARY KEY, id TEXT UNIQUE, user INTEGER, parent TEXT, title TEXT, title_key BLOB,
  text TEXT, is_html INTEGER, date TEXT, start INTEGER, end INTEGER, settled INTEGER,
  category TEXT, attribution TEXT, foreign_edit INTEGER
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
  coalesce(users.name || ' (' || post.attribution || ')', post.attribution),
  post.foreign_edit, post.is_html
FROM posts AS post LEFT JOIN users ON users.n = post.user
LEFT JOIN posts AS question ON question.id = post.parent
"""
"""The fields of a `StoredPost`, then what its text is made with."""


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
    foreign_edit: bool = False
    """Whether somebody else edited it last."""


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
    foreign_edit: bool

    @property
    def full_text(self) -> str:
        """A question's title and body, or the text."""
        return f"{self.title}\n\n{self.text}".rstrip() if self.title else self.text

    @property
    def post(self) -> Post:
        """The post as it stands in a profile."""
        return Post(id=self.id, category=self.category, text=self.full_text, date=self.date)


class PostStore(RowStore):
    """Posts of all users, by number, by user and by title.

    Times are microseconds since 1970. A post settles when its date, or the date of its last edit,
    is over: it may stand beside what starts then or later. Users and posts are named by their
    numbers, in order of appearance, unless `keep_ids`.
    """

    def __init__(self, *, keep_ids: bool) -> None:
        super().__init__(TABLES)
        name = "{}.id" if keep_ids else "CAST({}.n AS TEXT)"
        self._columns = COLUMNS.format(post=name.format("post"), user=name.format("users"))

    def read(
        self,
        rows: Iterable[Row],
        bad_rows: list[DataError] | None,
        names: Iterable[tuple[str, str]] = (),
    ) -> Stage:
        """Store posts and their users' names; return what became of the posts.

        Raises the first `DataError`, unless `bad_rows` takes them.
        """
        stage = Stage("reading", POSTS)
        for row in rows:
            try:
                if isinstance(row, DataError):
                    raise row
                if isinstance(row, PostRow):
                    self._add(row)
                stage.goes_on(None if isinstance(row, PostRow) else row.reason)
            except DataError as error:
                if bad_rows is None:
                    raise
                bad_rows.append(error)
                stage.goes_on(UNREADABLE)
        self.run_script(INDEXES)
        self.db.executemany("UPDATE users SET name = ?2 WHERE id = ?1", names)
        return stage

    def posts(self, condition: str, *values: object, most: int = -1) -> list[StoredPost]:
        """Return the posts of which an SQL condition on `post` holds, oldest first.

        Of more than `most` the latest. HTML is converted once, when a post is first returned.
        """
        newest = f"{condition} ORDER BY post.start DESC, post.n DESC LIMIT {most}"
        lines = self.rows(f"{self._columns} WHERE {newest}", *values)
        return [self._stored(*line) for line in reversed(lines)]

    def get(self, n: int) -> StoredPost:
        """Return the post of a number."""
        return self.posts("post.n = ?", n)[0]

    def earlier(self, user: int | None, start: int) -> list[StoredPost]:
        """Return what a user wrote before a moment and did not edit after it."""
        return self.posts("post.user = ? AND post.settled <= ?", user, start, most=MOST_POSTS)

    def _add(self, row: PostRow) -> None:
        post, (file, line) = row._asdict(), row.place
        del post["place"], post["edited"]
        field = "date"
        try:
            written = edited = read_date(row.date)
            if row.edited:
                field = "edited"
                edited = read_date(row.edited)
        except DataError as error:
            problem = error.problem.replace(UNREAD, "")  # sources are read by their dates
            raise DataError(problem, file=file, line=line, field=field) from None
        if row.user is not None:
            self.put("users", {"id": row.user})
            (post["user"],) = self.first("SELECT n FROM users WHERE id = ?", row.user)
        end = microseconds(written.start + written.length)
        settled = max(end, microseconds(edited.start + edited.length))
        post |= {"start": microseconds(written.start), "end": end, "settled": settled}
        post["title_key"] = row.title and text_key(row.title)
        if self.put("posts", post) is None:
            raise DataError(f"{row.id!r} is there twice", file=file, line=line, field="id")

    def _stored(self, *line: Any) -> StoredPost:
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


def text_of_html(html: str) -> str:
    """Return a post as Markdown without links and pictures, its formulas left as TeX.

    Elements that are nested too deeply for Markdown give their bare text. Raises `UsageError`
    without markdownify.

    >>> text_of_html("<p>Is <a href='x'>this</a> $a_1*b_2*$?</p><pre><code>H(q)</code></pre>")
    'Is this $a_1*b_2*$?\\n\\n```\\nH(q)\\n```'
    """
    with needing("posts in HTML need", "hub"):
        from bs4 import BeautifulSoup
        from markdownify import ATX, markdownify
    # Escapes would break formulas.
    how: dict[str, Any] = {"escape_asterisks": False, "escape_underscores": False}
    how |= {"heading_style": ATX, "strip": ["a", "img"]}
    try:
        text: str = markdownify(html, **how)
    except RecursionError:
        text = BeautifulSoup(html, "html.parser").get_text()
    return text.strip()
