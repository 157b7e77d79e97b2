"""A finished run: its summary and its verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

from palate.errors import RunError, writing
from palate.files import write_whole
from palate.metrics.noise import NoisyVerdicts
from palate.runs.manifest import read_manifest
from palate.runs.noise import noisy_verdicts
from palate.runs.result import Result, each_row, load_all, read_content
from palate.runs.row import VerdictRow
from palate.runs.summary import Summary
from palate.runs.verdicts import Verdicts

AGAIN = "again.jsonl"
"""Verdicts of the rows that were computed twice."""
UNDECIDED = "undecided.jsonl"
"""Ratings and scores of the rows that their users called ties."""


@dataclass(frozen=True)
class Run(Result):
    """One scorer under one context on one benchmark."""

    kind: ClassVar[str] = "run"
    content_type, row_type = Summary, VerdictRow
    summary: Summary
    verdicts: Verdicts
    folder: Path | None = None
    """Where it lies on disk; None for a run in memory alone."""
    seconds: float = 0.0
    """Wall time of the call that made it; not part of the run."""
    outages: int = 0
    """Rows unscored because the outside world failed; they are tried again at the next call."""
    again: Verdicts | None = None
    """Verdicts of the rows that were computed twice, the second time."""
    undecided: Verdicts | None = None
    """Ratings and scores of undecided rows, where these were scored; read by `evaluate_ratings`."""

    @property
    def cell(self) -> tuple[str, str, str]:
        """Benchmark, scorer and context."""
        return self.summary.benchmark, self.summary.scorer, self.summary.context

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Of each computation behind the scores, as its manifest says; none in memory alone."""
        if self.folder is None:
            return ()
        return tuple(read_manifest(self.folder).identity.get("fingerprints", ()))

    @property
    def accuracy(self) -> float | None:
        """The headline figure."""
        return self.summary.accuracy.value

    def noisy(self, verdicts: Verdicts | None = None) -> NoisyVerdicts | None:
        """Return the verdicts, or some of them, with their noise; None where none was measured."""
        noise = self.summary.noise
        if noise is None or not noise.rows or self.again is None:
            return None
        return noisy_verdicts(verdicts or self.verdicts, self.again, noise.kind)

    def lines(self) -> Iterator[str]:
        """Yield every row's verdict as one line of JSON."""
        return (row.line() for row in self.verdicts.rows)

    def save(self) -> None:
        """Write rows and summary into the run's folder, and what was computed beside the rows."""
        if self.folder is not None:
            with writing(self.folder, RunError):
                for name, beside in ((AGAIN, self.again), (UNDECIDED, self.undecided)):
                    if beside is None:
                        (self.folder / name).unlink(missing_ok=True)
                    else:
                        write_whole(self.folder / name, (f"{row.line()}\n" for row in beside.rows))
        super().save()

    @classmethod
    def read(cls, folder: Path) -> Run:
        """Read a finished run; raises `RunError` where it is unfinished or no run."""
        summary = read_content(folder, cls.kind, Summary)
        verdicts = Verdicts(each_row(folder, VerdictRow))
        if len(verdicts) != summary.n_pairs:
            raise RunError(
                f"{folder}: {len(verdicts):,} rows of {summary.n_pairs:,}; run the command again"
            )
        twice = summary.noise is not None and summary.noise.rows > 0
        again = Verdicts(each_row(folder, VerdictRow, AGAIN)) if twice else None
        rated = (folder / UNDECIDED).is_file()
        undecided = Verdicts(each_row(folder, VerdictRow, UNDECIDED)) if rated else None
        return cls(summary, verdicts, folder, again=again, undecided=undecided)


def load_runs(paths: Path | str | Iterable[Path | str]) -> list[Run]:
    """Return every finished run at or under these folders; raises as `load_all`."""
    return cast("list[Run]", load_all(paths, Run.kind))
