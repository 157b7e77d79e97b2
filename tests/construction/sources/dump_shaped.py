"""Sources written by hand: rows as lines, and attributes as `Posts.xml` and `Users.xml`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest

from palate.construction.question_sources import open_source
from palate.errors import DataError


def post(name: int, user: int | None, day: str, body: str, **more: str) -> dict[str, str]:
    """Return a question with `Title`, or an answer with `ParentId`."""
    row = {"Id": str(name), "PostTypeId": "2" if "ParentId" in more else "1"}
    row |= {"CreationDate": f"{day}T00:00:00.000", "Body": f"<p>{body}</p>"}
    return row | ({} if user is None else {"OwnerUserId": str(user)}) | more


def xml(root: str, rows: Iterable[Mapping[str, str]]) -> str:
    """Return a file of a dump; its first row stands in line 3."""
    lines = (f"  <row {' '.join(f'{k}={quoteattr(v)}' for k, v in row.items())} />" for row in rows)
    return "\n".join(
        ['\ufeff<?xml version="1.0" encoding="utf-8"?>', f"<{root}>", *lines, f"</{root}>"]
    )


def write(folder: Path, posts: Iterable[Mapping[str, str]], users: Mapping[int, str] = {}) -> Path:
    """Write a dump's folder; posts gzipped, and users where there are any."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Posts.xml.gz").write_bytes(gzip.compress(xml("posts", posts).encode()))
    if users:
        rows = [{"Id": str(name), "DisplayName": known} for name, known in users.items()]
        (folder / "Users.xml").write_text(xml("users", rows), encoding="utf-8")
    return folder


def lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows, one a line."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def refused(path: Path, layout: str, match: str | None = None, **options: bool) -> DataError:
    """Return the error for which a source cannot be opened."""
    with pytest.raises(DataError, match=match) as error, open_source(path, layout, **options):
        pass
    return error.value
