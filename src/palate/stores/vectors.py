"""Vectors on disk by key: float16, memory-mapped, appended to, whole after a kill at any byte.

Two files: `vectors` (rows of float16) and `keys` (16 bytes a row). A row counts once both are
there; what a killed writer left half is cut away by the next one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palate.errors import ModelError, writing
from palate.files import flock

KEY = np.dtype("V16")
Keys = NDArray[np.void]
Places = NDArray[np.int64]


def as_keys(digests: list[bytes]) -> Keys:
    """Return digests of 16 bytes or more as keys."""
    return np.frombuffer(b"".join(one[:16] for one in digests), dtype=KEY)


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
        return np.asarray(self._vectors()[rows])

    def append(self, keys: Keys, vectors: NDArray[np.floating]) -> None:
        """Store vectors (n × width) under their keys; raises `ModelError` if one is not finite."""
        with np.errstate(over="ignore"):
            small = np.asarray(vectors, np.float16)
        if small.shape != (len(keys), self.width):
            raise ModelError(
                f"{self.folder}: vectors of {small.shape[1:]} in a table of width {self.width}"
            )
        if not np.isfinite(small).all():
            raise ModelError(f"{self.folder}: an embedding does not fit into float16")
        with self._writing():
            for name, rows in (("vectors", small), ("keys", keys)):
                with (self.folder / name).open("ab") as file:
                    file.write(rows.tobytes())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / "lock").open("ab") as lock:
                flock(lock, wait=True)
                whole = self._whole()
                for name, size in (("vectors", 2 * self.width), ("keys", KEY.itemsize)):
                    path = self.folder / name
                    if path.exists() and path.stat().st_size > whole * size:
                        os.truncate(path, whole * size)
                yield

    def _whole(self) -> int:
        sizes = (("vectors", 2 * self.width), ("keys", KEY.itemsize))
        paths = [(self.folder / name, size) for name, size in sizes]
        return min(path.stat().st_size // size if path.exists() else 0 for path, size in paths)

    def _refreshed(self) -> tuple[Keys, Places]:
        # The keys in order and their rows, put in place together: other threads read them.
        whole, index = self._whole(), self._index
        if whole != len(index[1]):
            keys = np.fromfile(self.folder / "keys", KEY, whole)
            # Two processes may have stored one key: the first row counts.
            order = np.argsort(_comparable(keys), kind="stable").astype(np.int64)
            index = self._index = keys[order], order
        return index

    def _vectors(self) -> NDArray[np.float16]:
        path = self.folder / "vectors"
        shape = (path.stat().st_size // (2 * self.width), self.width)
        return np.memmap(path, np.float16, "r", shape=shape)


def _comparable(keys: Keys) -> NDArray[np.bytes_]:
    # Bytes compare as strings; a key may end in zeros, which they ignore on both sides alike.
    return keys.view("S16")
