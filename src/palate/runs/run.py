"""A finished run: its summary and its verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from palate.errors import RunError
from palate.runs.files import write_json
from palate.runs.folder import run_folders
from palate.runs.results import Summary
from palate.runs.verdicts import Verdicts


@dataclass(frozen=True)
class Run:
    """One scorer under one context on one benchmark."""

    summary: Summary
    verdicts: Verdicts
    folder: Path | None = None
    """Where it lies on disk; None for a run kept in memory."""
    seconds: float = 0.0
    """Wall time of the call that made it; not part of the run."""
    outages: int = 0
    """Rows unscored because the outside world failed; they are tried again at the next call."""

    @property
    def accuracy(self) -> float | None:
        """The headline figure."""
        return self.summary.accuracy.value

    def save(self) -> None:
        """Write verdicts and summary into the run's folder."""
        assert self.folder is not None, "a run in memory has no folder"
        try:
            self.verdicts.save(self.folder / "verdicts.jsonl")
            write_json(self.folder / "summary.json", self.summary.model_dump(mode="json"))
        except OSError as error:
            raise RunError(f"{self.folder}: cannot be written ({error.strerror})") from error


def load_run(folder: Path | str) -> Run:
    """Read a finished run; raises `RunError` where it is unfinished or no run."""
    folder = Path(folder)
    try:
        text = (folder / "summary.json").read_text(encoding="utf-8")
        summary = Summary.model_validate(json.loads(text))
    except (OSError, ValueError) as error:
        raise RunError(f"{folder}: no finished run (no readable summary.json)") from error
    return Run(summary, Verdicts.load(folder / "verdicts.jsonl"), folder)


def load_runs(paths: Iterable[Path | str]) -> list[Run]:
    """Read every finished run at or under these folders."""
    found: dict[Path, Run] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise RunError(f"{path}: no such folder")
        folders = [f for f in run_folders(path) if (f / "summary.json").is_file()]
        if not folders:
            raise RunError(f"{path}: no finished run at or under this folder")
        found |= {folder.resolve(): load_run(folder) for folder in folders}
    return list(found.values())
