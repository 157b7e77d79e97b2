"""One folder for all that palate keeps between programs."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from palate.stores.documents import Documents
from palate.stores.vectors import Vectors


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
