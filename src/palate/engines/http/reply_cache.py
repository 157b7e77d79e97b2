"""Replies of endpoints on disk, so that none is paid twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from palate.engines.http.batch_files import RequestFile
from palate.stores import Documents


class ReplyCache(Documents):
    """Replies by what was asked; while they are asked for afresh none is read, and each is kept.

    >>> import tempfile
    >>> replies = ReplyCache(Path(tempfile.mkdtemp()))
    >>> replies.put("ab12", b"a reply")
    >>> with replies.asked_afresh():
    ...     replies.get("ab12")
    >>> replies.get("ab12")
    b'a reply'
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.afresh = False
        self.requests: RequestFile | None = None  # written there where it is one, and not sent

    def get(self, key: str) -> bytes | None:
        """Return a reply; None where there is none, or it is to be asked for afresh."""
        return None if self.afresh else super().get(key)

    @contextmanager
    def asked_afresh(self) -> Iterator[None]:
        """Leave what is kept unread for a while."""
        self.afresh = True
        try:
            yield
        finally:
            self.afresh = False
