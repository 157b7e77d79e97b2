"""Earlier results on disk, by the hash of what made them: documents and vectors.

Vectors are float16, memory-mapped, appended to, and whole after a kill at any byte: in two files,
`vectors` (rows of float16) and `keys` (16 bytes a row). A row counts once both are there; what a
killed writer left half is cut away by the next one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from palate.errors import ModelError, ResourceError, UsageError, writing
from palate.files import flock, whole_file
from palate.seeding import canonical_json

MAGIC = b"palate-document-1 "
KEY = np.dtype("V16")
Keys = NDArray[np.void]
Places = NDArray[np.int64]
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
            problem = f"cannot write there ({error.strerror})"
            raise UsageError(f"{named_by} {self.folder}: {problem}") from error

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


def cache_folder() -> Path:
    """Return palate's cache: `$PALATE_CACHE`, else the system's place for caches."""
    chosen = os.environ.get("PALATE_CACHE")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("palate"))


class Store:
    """Documents by kind and tables of vectors by name, under palate's cache or another folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.given = folder
        self._vectors: dict[tuple[Path, int], Vectors] = {}

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.given if self.given is not None else cache_folder()

    def documents(self, kind: str) -> Documents:
        """Return the documents of a kind."""
        return Documents(self.folder / kind)

    def vectors(self, name: str, width: int) -> Vectors:
        """Return a table of vectors of one width; its keys are read once and kept sorted."""
        folder = self.folder / "embeddings" / f"{name}-{width}"
        if (folder, width) not in self._vectors:
            self._vectors.setdefault((folder, width), Vectors(folder, width))
        return self._vectors[folder, width]


def as_keys(digests: list[bytes]) -> Keys:
    """Return digests of 16 bytes or more as keys."""
    return np.frombuffer(b"".join(key[:16] for key in digests), dtype=KEY)


class Vectors:
    """A growing table of vectors of one width.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     store = Vectors(Path(place), 2)
    ...     store.append(as_keys([b"a" * 16]), np.array([[0.5, -2.0]]))
    ...     rows = store.find(as_keys([b"b" * 16, b"a" * 16]))
    ...     rows.tolist(), store.read(rows[1:]).tolist()
    ([-1, 0], [[0.5, -2.0]])
    """

    def __init__(self, folder: Path, width: int) -> None:
        self.folder, self.width = folder, width
        self._sizes = {folder / "vectors": 2 * width, folder / "keys": KEY.itemsize}
        self._index: tuple[Keys, Places] = np.empty(0, KEY), np.empty(0, np.int64)
        self._refreshed()

    def __len__(self) -> int:
        return len(self._index[1])

    def find(self, keys: Keys) -> Places:
        """Return the row of each key, −1 where it is not stored."""
        in_order, order = self._refreshed()
        if not len(order):
            return np.full(len(keys), -1)
        stored, wanted = _comparable(in_order), _comparable(keys)
        places = np.searchsorted(stored, wanted).clip(max=len(stored) - 1)
        return np.where(stored[places] == wanted, order[places], -1)

    def read(self, rows: Places) -> NDArray[np.float16]:
        """Return the vectors of these rows (n × width); only they are read from disk."""
        if not len(rows):
            return np.empty((0, self.width), np.float16)
        path = self.folder / "vectors"
        shape = (path.stat().st_size // (2 * self.width), self.width)
        return np.asarray(np.memmap(path, np.float16, "r", shape=shape)[rows])

    def append(self, keys: Keys, vectors: NDArray[np.floating]) -> None:
        """Store vectors (n × width) under their keys; raises `ModelError` if one is not finite."""
        with np.errstate(over="ignore"):
            small = np.asarray(vectors, np.float16)
        if small.shape != (len(keys), self.width):
            shape = small.shape[1:]
            raise ModelError(f"{self.folder}: vectors of {shape} in a table of width {self.width}")
        if not np.isfinite(small).all():
            raise ModelError(f"{self.folder}: an embedding does not fit into float16")
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / "lock").open("ab") as lock:
                flock(lock, wait=True)
                whole = self._whole()
                for path, size in self._sizes.items():
                    if path.exists() and path.stat().st_size > whole * size:
                        os.truncate(path, whole * size)
                for path, rows in zip(self._sizes, (small, keys), strict=True):
                    with path.open("ab") as file:
                        file.write(rows.tobytes())

    def _whole(self) -> int:
        stored = [
            path.stat().st_size // n if path.exists() else 0 for path, n in self._sizes.items()
        ]
        return min(stored)

    def _refreshed(self) -> tuple[Keys, Places]:
        # The keys in order and their rows, put in place together: other threads read them.
        whole, index = self._whole(), self._index
        if whole != len(index[1]):
            keys = np.fromfile(self.folder / "keys", KEY, whole)
            # Two processes may have stored one key: the first row counts.
            order = np.argsort(_comparable(keys), kind="stable").astype(np.int64)
            index = self._index = keys[order], order
        return index


def _comparable(keys: Keys) -> NDArray[np.bytes_]:
    # Bytes compare as strings; a key may end in zeros, which they ignore on both sides alike.
    return keys.view("S16")
