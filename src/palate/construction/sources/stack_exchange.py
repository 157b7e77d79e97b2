"""A Stack Exchange dump: `Posts.xml`, and `Users.xml` for names, each plain or gzipped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from palate.construction.fields import possible_text, text_of
from palate.construction.sources.post_store import PostRow, PostStore, Row
from palate.construction.sources.xml_rows import read_xml_rows
from palate.construction.stage import Dropped, Stage
from palate.errors import DataError, UsageError

QUESTION, ANSWER = "1", "2"
NO_QUESTION_OR_ANSWER = "no question or answer"
TAG = re.compile(r"[^<>|]+")
"""Tags are `<a><b>`, and `|a|b|` in dumps since 2025."""
LICENCES = (("2011-04-08", "2.5"), ("2018-05-02", "3.0"))
"""Versions of CC BY-SA until a day; 4.0 from the last on."""


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


def store_dump(
    store: PostStore, files: list[Path], *, bad_rows: list[DataError] | None
) -> Stage[Row, PostRow]:
    """Store a dump's posts and the names of their users; return what became of its rows."""
    posts, *users = files
    names = (name for path in users for name in _names(path))
    return store.read(_posts(posts), names, bad_rows=bad_rows)


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


def _names(path: Path) -> Iterator[tuple[str, str]]:
    for _, row in read_xml_rows(path, "users"):
        yield row.get("Id", ""), row.get("DisplayName", "")


def _posts(path: Path) -> Iterator[Row]:
    for line, row in read_xml_rows(path, "posts"):
        try:
            yield _post(row, (str(path), line))
        except DataError as error:
            yield DataError(error.problem, file=str(path), line=line, field=error.field)


def _post(row: Mapping[str, str], place: tuple[str, int]) -> PostRow | Dropped:
    sort = text_of(row, "PostTypeId")
    if sort not in (QUESTION, ANSWER):
        return Dropped(NO_QUESTION_OR_ANSWER)
    author = possible_text(row, "OwnerUserId")
    named = f"user {author}" if author else row.get("OwnerDisplayName", "author unknown")
    tags = TAG.findall(row.get("Tags", ""))
    return PostRow(
        place=place,
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
    )
