"""A Stack Exchange dump: `Posts.xml`, and `Users.xml` for names, each plain or gzipped.

Pairs are built from its questions, own texts from its answers, each against another author's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from xml.parsers import expat

from palate.construction.own_text_layouts import EarlierText, Entries, OwnTextEntry
from palate.construction.post_store import (
    MOST_POSTS,
    NO_AUTHOR,
    PostRow,
    PostStore,
    StoredPost,
    attribution,
)
from palate.construction.rows import Dropped, Stage, possible_text, read_each, text_of
from palate.data import MAX_LINE, ByteStream
from palate.errors import DataError, UsageError

QUESTION, ANSWER = "1", "2"
NO_QUESTION_OR_ANSWER = "no question or answer"
TAG = re.compile(r"[^<>|]+")
"""Tags are `<a><b>`, and `|a|b|` in dumps since 2025."""
LICENCES = (("2011-04-08", "2.5"), ("2018-05-02", "3.0"))
"""Versions of CC BY-SA until a day; 4.0 from the last on."""
CHUNK = 2**16
NO_QUESTION = "its question is not in the dump"
FOREIGN_EDIT = "last edited by somebody else"
ANSWERS = "SELECT n FROM posts WHERE parent IS NOT NULL ORDER BY n"
EARLIER = "post.user = ? AND post.settled <= ? AND post.parent <> ? AND question.n IS NOT NULL"
"""What an author had answered to other questions and did not edit since."""
OWN_EDITS = " AND NOT post.foreign_edit"


def dump_files(source: Path) -> list[Path]:
    """Return the posts, and the users where they lie beside them; raises `UsageError`."""
    if source.is_dir():
        posts = next(_beside(source, "Posts"), None)
        if posts is None:
            raise UsageError(f"{source}: expected Posts.xml or Posts.xml.gz of a dump")
        source = posts
    if not source.name.lower().endswith((".xml", ".xml.gz")):
        raise UsageError(f"{source}: expected Posts.xml or Posts.xml.gz of a dump, or its folder")
    return [source, *list(_beside(source.parent, "Users"))[:1]]


def store_dump(store: PostStore, files: list[Path], bad_rows: list[DataError] | None) -> Stage:
    """Store a dump's posts and the names of their users; return what became of its rows."""
    posts, *users = files
    named = (row for path in users for _, row in read_xml_rows(path, "users"))
    names = ((row.get("Id", ""), row.get("DisplayName", "")) for row in named)
    return store.read(read_each(posts, read_xml_rows(posts, "posts"), _post), bad_rows, names)


def licence_of(row: Mapping[str, str]) -> str:
    """Return a post's licence; older dumps tell it by the post's date alone.

    >>> licence_of({"CreationDate": "2018-03-12T17:00:45.567"})
    'CC BY-SA 3.0'
    """
    day = row.get("CreationDate", "")
    by_day = next((version for end, version in LICENCES if day < end), "4.0")
    return row.get("ContentLicense") or f"CC BY-SA {by_day}"


def _beside(folder: Path, name: str) -> Iterator[Path]:
    paths = (folder / f"{name}.xml{packed}" for packed in ("", ".gz"))
    return (path for path in paths if path.is_file())


def _post(row: Mapping[str, str], path: Path, line: int) -> PostRow | Dropped:
    sort = text_of(row, "PostTypeId")
    if sort not in (QUESTION, ANSWER):
        return Dropped(NO_QUESTION_OR_ANSWER)
    author = possible_text(row, "OwnerUserId")
    named = f"user {author}" if author else row.get("OwnerDisplayName", "author unknown")
    editor = possible_text(row, "LastEditorUserId") or row.get("LastEditorDisplayName")
    tags = TAG.findall(row.get("Tags", ""))
    return PostRow(
        place=(str(path), line),
        id=text_of(row, "Id"),
        user=author or None,
        text=text_of(row, "Body"),
        date=text_of(row, "CreationDate"),
        title=text_of(row, "Title") if sort == QUESTION else None,
        parent=text_of(row, "ParentId") if sort == ANSWER else None,
        edited=possible_text(row, "LastEditDate") or None,
        category=tags[0] if tags else "",
        attribution=f"{named}, {licence_of(row)}",
        is_html=True,
        foreign_edit=bool(editor) and editor not in (author, row.get("OwnerDisplayName")),
    )


def read_xml_rows(path: Path, root: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield (line, attributes) of every row below the root element.

    Raises `DataError` with the line for what is no such file: cut short, a character that XML does
    not allow, another element, a document type (which could define entities), a row over 32 MiB.
    """
    rows: list[tuple[int, Mapping[str, str]]] = []
    depth = 0

    def start(name: str, attributes: Mapping[str, str]) -> None:
        nonlocal depth
        if name != (root, "row")[min(depth, 1)] or depth > 1:
            expected = f"<{root}>" if not depth else f"<row> in <{root}>"
            raise refused(f"expected {expected}, got <{name}>")
        depth += 1
        if name == "row":
            rows.append((parser.CurrentLineNumber, attributes))

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1

    def doctype(*_: object) -> None:
        raise refused("has a DOCTYPE, which a dump has not")

    def refused(problem: str) -> DataError:
        return DataError(problem, file=str(path), line=parser.CurrentLineNumber)

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = doctype
    n_read, more = 0, True
    with ByteStream(path) as stream:
        stream.line = 1
        while more:
            chunk = stream.read(CHUNK)
            n_read, more = n_read + len(chunk), bool(chunk)
            try:
                parser.Parse(chunk, not more)
            except expat.ExpatError as error:
                problem = f"not XML, or cut short ({expat.ErrorString(error.code)})"
                raise DataError(problem, file=str(path), line=error.lineno) from None
            except (LookupError, ValueError) as error:  # of the encoding that a file names
                raise DataError(f"cannot be decoded ({error})", file=str(path), line=1) from None
            stream.line = parser.CurrentLineNumber
            if n_read - parser.CurrentByteIndex > MAX_LINE:
                raise stream.error(f"the row is over {MAX_LINE >> 20} MiB")
            yield from rows
            rows.clear()


def read_dump(files: list[Path], *, own_edits: bool = False) -> Entries:
    """Yield the answers, and the errors of rows that cannot be read.

    With `own_edits` an answer that somebody else edited last is none, in profiles too. Raises
    `DataError` where the file itself cannot be read on.
    """
    with closing(PostStore(keep_ids=False)) as store:
        bad_rows: list[DataError] = []
        store_dump(store, files, bad_rows)
        yield from bad_rows
        for (n,) in store.rows(ANSWERS):
            yield _own_text(store, store.get(n), own_edits)


def _own_text(store: PostStore, answer: StoredPost, own_edits: bool) -> OwnTextEntry | Dropped:
    if answer.user is None:
        return Dropped(NO_AUTHOR)
    if own_edits and answer.foreign_edit:
        return Dropped(FOREIGN_EDIT)
    parent = store.posts("post.id = ?", answer.parent)
    if not parent:
        return Dropped(NO_QUESTION)
    question = parent[0].full_text
    condition = EARLIER + OWN_EDITS * own_edits
    written_on = answer.user, answer.start, answer.parent
    earlier = store.posts(condition, *written_on, most=MOST_POSTS)
    return OwnTextEntry(
        id=answer.id,
        user=str(answer.user_id),
        question=question,
        source=question,
        text=answer.text,
        earlier=tuple(_earlier(store, post) for post in earlier),
        date=answer.date,
        category=answer.category,
        attribution=_credit(parent[0], [answer, *earlier]),
        is_beside=True,
        foreign_edit=bool(answer.foreign_edit),
    )


def _earlier(store: PostStore, answer: StoredPost) -> EarlierText:
    (parent,) = store.posts("post.id = ?", answer.parent)
    question, credit = parent.full_text, _credit(parent, [answer])
    return EarlierText(answer.id, answer.text, question, question, answer.date, credit)


def _credit(parent: StoredPost, answers: list[StoredPost]) -> str:
    return f"question: {attribution([parent])}; answer: {attribution(answers)}"
