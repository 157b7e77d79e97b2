"""A build of own-text pairs as a result: what every stage kept and dropped, and blind scorers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from palate.construction.blind import WARN_ABOVE
from palate.construction.own_text.selection import SORTS
from palate.construction.stage import StageCounts, dropped_by_row
from palate.errors import RunError, UsageError, writing
from palate.files import write_json, write_whole
from palate.metrics import Estimate
from palate.records import Record
from palate.runs import ROWS, SUMMARY, Result, read_content


class OwnTextSummary(Record):
    """Everything `palate build own-text` prints."""

    benchmark: str
    layout: str
    policy: str | None
    """Who answers where no other author wrote; None where such rows are left out."""
    rows: Mapping[str, Mapping[str, int]]
    """By split: rows, users, inputs, rows against other authors and against the model."""
    stages: tuple[StageCounts, ...]
    """In their order; of one sort of row, a stage reads what the one before kept."""
    undated_profile_items: int
    """Profile items that stay although it is not known whether they are earlier."""
    blind_scorers: Mapping[str, Estimate]
    """Accuracy of blind scorers on the test rows."""
    rows_hash: str
    """SHA-256 of the file of rows."""


class OwnTextRow(Record):
    """A row of the source with a text to show, or an earlier text, in the file or left out."""

    id: str
    split: str
    user: str
    rejected_by: str | None
    """Whose text is rejected: `others`, or the model's spec."""
    stage: str | None
    """Which stage left it out; None for a row of the file."""
    reason: str | None


@dataclass(frozen=True)
class OwnTextBuild(Result):
    """What a build gave, and what it left out."""

    kind: ClassVar[str] = "own-text"
    content_type, row_type = OwnTextSummary, OwnTextRow
    summary: OwnTextSummary
    folder: Path | None = None

    @property
    def rows(self) -> Mapping[str, Mapping[str, int]]:
        """By split: rows, users, inputs, rows against other authors and against the model."""
        return self.summary.rows

    @property
    def dropped(self) -> Mapping[str, Mapping[str, int]]:
        """By what was left out: how often for which reason."""
        return dropped_by_row(self.summary.stages, SORTS)

    @property
    def given_away(self) -> tuple[str, ...]:
        """Blind scorers that are right too often."""
        blind = self.summary.blind_scorers
        return tuple(name for name in blind if (blind[name].value or 0) > WARN_ABOVE)

    def lines(self) -> Iterator[str]:
        """Yield every row as one line of JSON; raises `UsageError` where none is kept."""
        if self.folder is None:
            raise UsageError("own-text: built without a root, so no rows of its result are kept")
        with (self.folder / ROWS).open(encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.rstrip("\n")

    def save_with(self, rows: Iterator[OwnTextRow]) -> None:
        """Write these rows and the summary into the result's folder."""
        if self.folder is not None:
            with writing(self.folder, RunError):
                write_whole(self.folder / ROWS, (f"{row.model_dump_json()}\n" for row in rows))
                write_json(self.folder / SUMMARY, self.document())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a finished result; raises `RunError` where there is none."""
        return cls(read_content(folder, cls.kind, OwnTextSummary), folder)
