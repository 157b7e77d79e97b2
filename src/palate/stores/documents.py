"""Documents on disk: one file a key, each with the hash of what it holds."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from pathlib import Path
from typing import Any

from palate.errors import ResourceError, UsageError, writing
from palate.files import whole_file
from palate.seeding import canonical_json

MAGIC = b"palate-document-1 "
log = logging.getLogger(__name__)


class Documents:
    """One file a key, put in place whole: safe between processes and after a kill.

    A key is a hash in hexadecimal, so neither prompts nor passwords are written as names; the first
    line holds the hash of the rest, so that a damaged file is seen.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     documents = Documents(Path(place))
    ...     documents.put("ab12", b"a reply")
    ...     documents.get("ab12"), documents.get("cd34")
    (b'a reply', None)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def check(self, named_by: str) -> None:
        """Raise `UsageError` where nothing can be written, now and not at the first document."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / f".{secrets.token_hex(8)}.tmp"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise UsageError(
                f"{named_by} {self.folder}: cannot write there ({error.strerror})"
            ) from error

    def get(self, key: str) -> bytes | None:
        """Return a document; None where there is none, or, with a warning, where it is damaged."""
        path = self._path(key)
        try:
            head, _, body = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ResourceError(f"{path}: cannot be read ({error.strerror})") from error
        if head != MAGIC + hashlib.sha256(body).hexdigest().encode():
            log.warning("%s: damaged; it is made again", path)
            return None
        return body

    def put(self, key: str, body: bytes) -> None:
        """Keep a document; raises `ResourceError` where it cannot be written."""
        path = self._path(key)
        # Folders of documents are too large to be searched for each of them.
        with writing(path), whole_file(path, sweep=False) as stream:
            stream.write(MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)

    def get_json(self, key: str) -> Any:
        """Return what `put_json` kept; None where there is nothing."""
        body = self.get(key)
        return None if body is None else json.loads(body)

    def put_json(self, key: str, value: object) -> None:
        """Keep a value that JSON can hold."""
        self.put(key, canonical_json(value).encode("utf-8", "surrogatepass"))

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key
