"""Replies on disk, by the content of what was asked."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from pathlib import Path

from palate.errors import ResourceError, UsageError, writing

MAGIC = b"palate-reply-1 "
log = logging.getLogger(__name__)


class ReplyCache:
    """One file per reply, put in place whole: safe between processes and after a kill.

    The name is a hash of URL and body, so neither prompts nor keys are written; the first line
    holds the hash of the rest, so that a damaged file is seen.
    """

    def __init__(self, folder: Path, named_by: str = "--cache") -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".{secrets.token_hex(8)}.tmp"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise UsageError(
                f"{named_by} {folder}: cannot write there ({error.strerror})"
            ) from error

    def key(self, url: str, body: bytes) -> str:
        """Return the name of a reply; the body holds the model."""
        return hashlib.sha256(url.encode() + b"\n" + body).hexdigest()

    def get(self, key: str) -> bytes | None:
        """Return an earlier reply; None, said aloud, where its file is damaged."""
        path = self._path(key)
        try:
            head, _, body = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ResourceError(f"{path}: cannot be read ({error.strerror})") from error
        if head != MAGIC + hashlib.sha256(body).hexdigest().encode():
            log.warning("%s: damaged reply in the cache; asked again", path)
            return None
        return body

    def put(self, key: str, body: bytes) -> None:
        """Keep a reply."""
        path = self._path(key)
        new = path.with_name(f".{secrets.token_hex(8)}.tmp")
        with writing(path):
            path.parent.mkdir(exist_ok=True)
            new.write_bytes(MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            os.replace(new, path)  # noqa: PTH105 - one call, one rename

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key
