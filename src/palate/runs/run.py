"""A finished run: its summary, its verdicts, and the noise in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, cast

import numpy as np

from palate.errors import RunError, writing
from palate.files import write_whole
from palate.metrics.arrays import FloatArray
from palate.metrics.noise import NoisyVerdicts, are_replies, error_sd
from palate.runs.manifest import read_manifest
from palate.runs.result import Result, ResultSource, each_row, load_all, read_content
from palate.runs.row import VerdictRow
from palate.runs.summary import Noise, Summary
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
    beside = (AGAIN, UNDECIDED)
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


def load_runs(paths: ResultSource | Iterable[ResultSource]) -> list[Run]:
    """Return every finished run at or under these folders; raises as `load_all`."""
    return cast("list[Run]", load_all(paths, Run.kind))


def noisy_verdicts(verdicts: Verdicts, again: Verdicts, kind: str) -> NoisyVerdicts:
    """Return a run's verdicts with what some of them became the second time, matched by id."""
    place = {name: k for k, name in enumerate(again.ids)}
    at = np.array([place.get(name, -1) for name in verdicts.ids], dtype=np.int64)
    twice = at >= 0
    twice[twice] = ~np.isnan(again.values[at[twice]]) & ~np.isnan(verdicts.values[twice])
    first, second = verdicts.take(twice), again.take(at[twice])
    errors = (first.votes - second.votes).ravel() if twice.any() else np.zeros(0)
    replies = not verdicts.shared and are_replies(errors)
    known: FloatArray | None = None
    if kind == "rounding":
        known = np.full(len(verdicts), np.nan)
        known[twice] = second.values
    return NoisyVerdicts(
        verdicts.values,
        verdicts.votes,
        None if replies else error_sd(errors) or 0.0,
        n=int(twice.sum()),
        changed=int(np.count_nonzero(np.sign(first.values - 0.5) != np.sign(second.values - 0.5))),
        shares=verdicts.shared,
        known=known,
    )


def noise_of(
    verdicts: Verdicts,
    again: Verdicts,
    kind: Literal["rounding", "asking again"],
    dtype: str | None = None,
) -> Noise:
    """Return what a summary tells of rows that were computed twice."""
    noisy = noisy_verdicts(verdicts, again, kind)
    if not noisy.n:
        return Noise(kind=kind, dtype=dtype, note="no row was scored both times")
    place = {name: k for k, name in enumerate(verdicts.ids)}
    first = verdicts.take([place[name] for name in again.ids])
    sd = error_sd(first.votes.mean(axis=1) - again.votes.mean(axis=1))
    return Noise(
        kind=kind,
        dtype=dtype,
        rows=noisy.n,
        sd=None if noisy.sd is None else sd,
        flips_seen=noisy.changed,
        expected_flips=float(np.nansum(noisy.flips())),
    )
