"""build_own_text(source, output, layout) → a file of pairs, and what was left out and why."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from palate.construction.own_text.blind import WARN_ABOVE, BlindScorers
from palate.construction.own_text.entries import Entries
from palate.construction.own_text.lamp import lamp_files, read_lamp
from palate.construction.own_text.longlamp import read_longlamp
from palate.construction.own_text.pairing import (
    OTHERS,
    Answers,
    drop_unpaired,
    pair_with_authors,
)
from palate.construction.own_text.rows import read_rows
from palate.construction.own_text.selection import RowSelection
from palate.construction.own_text.spool import Spool
from palate.construction.own_text.writing import check_output, rows_file, write_manifest
from palate.data import files_of
from palate.data.rows import read_question
from palate.errors import DataError, ResourceError, UsageError
from palate.evaluation import Start
from palate.metrics import Estimate
from palate.records import Settings
from palate.runs import as_document
from palate.session import Session, default_session

KIND = "own-text"
ADAPT_ROWS = 8


LAYOUTS: Mapping[str, Callable[[list[Path]], Entries]] = {
    "longlamp": read_longlamp,
    "rows": read_rows,
}


@dataclass(frozen=True)
class OwnTextBuild:
    """What a build gave, and what it left out."""

    output: Path
    sources: Mapping[str, str]
    """SHA-256 of each file that was read, by name."""
    options: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, int]]
    """By split: rows, users, inputs, rows against other authors and against the model."""
    dropped: Mapping[str, Mapping[str, int]]
    """By what was left out: how often for which reason."""
    undated: int
    """Profile items that stay although it is not known whether they are earlier."""
    blind: Mapping[str, Estimate]
    """Accuracy of blind scorers on the test rows."""
    rows_hash: str
    """SHA-256 of the file."""

    @property
    def given_away(self) -> tuple[str, ...]:
        """Blind scorers that are right too often."""
        return tuple(name for name, it in self.blind.items() if (it.value or 0) > WARN_ABOVE)

    def document(self) -> dict[str, Any]:
        """Return it as the JSON document that is its manifest."""
        return as_document(
            KIND,
            {
                "sources": dict(self.sources),
                "options": dict(self.options),
                "rows": {split: dict(counts) for split, counts in self.rows.items()},
                "dropped": {what: dict(counts) for what, counts in self.dropped.items()},
                "undated_profile_items": self.undated,
                "blind_scorers": {name: asdict(estimate) for name, estimate in self.blind.items()},
                "rows_hash": self.rows_hash,
            },
        )


def build_own_text(
    source: Path | str,
    output: Path | str,
    *,
    layout: str,
    rejected: str = OTHERS,
    outputs: Path | str | None = None,
    adapt: int = ADAPT_ROWS,
    skip_bad_rows: bool = False,
    order_as_in_file: bool = False,
    session: Session | None = None,
    settings: Settings | None = None,
    start: Start = lambda label: lambda done, total: None,
) -> OwnTextBuild:
    """Write pairs of users' own texts and other texts on the same input, and their manifest.

    `layout` is lamp, longlamp or rows; `rejected` is `others` or a policy that answers where no
    other author wrote; `outputs` is LaMP's file of outputs where it does not lie beside the
    questions; `adapt` is the most earlier texts of a user that become adapt rows. With
    `order_as_in_file` no date is read, so that nothing is left out for not being earlier. Answers
    of a policy are kept as they come, and the same call gives the same bytes.

    Raises `DataError` for a bad row, `UsageError` for options that do not fit.
    """
    source, output = Path(source), Path(output)
    settings = settings or Settings()
    check_output(output)
    if adapt < 0:
        raise UsageError(f"--adapt {adapt}: expected 0 or more")
    files, read = _layout(layout, source, None if outputs is None else Path(outputs))
    answers = None
    if rejected != OTHERS:
        answers = Answers(rejected, session or default_session(), settings, start)
    options = {
        "layout": layout,
        "rejected": rejected,
        "policy": answers and answers.fingerprint,
        "adapt": adapt,
        "seed": settings.seed,
        "skip_bad_rows": skip_bad_rows,
        **({"order_as_in_file": True} if order_as_in_file else {}),
    }
    try:
        with closing(Spool()) as spool:
            selection = RowSelection(
                spool, skip_bad_rows=skip_bad_rows, order_as_in_file=order_as_in_file
            )
            selection.read(read(files))
            for split in ("test", "adapt"):
                if split == "adapt":
                    selection.keep_apart()
                alike = pair_with_authors(spool, split, settings.seed)
                if answers is None:
                    selection.count(split, drop_unpaired(spool, split, alike))
                if split == "adapt":
                    selection.limit(adapt)
                if answers is not None:
                    selection.count(split, answers.pair(spool, split))
            if not spool.numbers("test"):
                raise DataError(f"leaves no test row ({selection.reasons()})", file=str(source))
            blind = _write(output, spool)
            rows = {split: spool.counts(split) for split in ("test", "adapt")}
    except sqlite3.Error as error:
        raise ResourceError(f"the temporary file of the build: {error}; see TMPDIR") from error
    build = OwnTextBuild(
        output,
        {path.name: hash_of_file(path) for path in files},
        options,
        rows,
        selection.dropped(),
        selection.undated,
        blind.accuracies(settings.seed),
        hash_of_file(output),
    )
    write_manifest(output, build.document())
    return build


def _layout(
    layout: str, source: Path, outputs: Path | None
) -> tuple[list[Path], Callable[[list[Path]], Entries]]:
    if layout == "lamp":
        return lamp_files(source, outputs), read_lamp
    if layout not in LAYOUTS:
        raise UsageError(f"--layout {layout}: expected one of lamp, {', '.join(LAYOUTS)}")
    if outputs is not None:
        raise UsageError(f"--outputs {outputs}: only --layout lamp has outputs in a file apart")
    return files_of(source), LAYOUTS[layout]


def _write(output: Path, spool: Spool) -> BlindScorers:
    blind = BlindScorers()
    with rows_file(output) as file:
        for split in ("test", "adapt"):
            for row in spool.finished(split):
                read_question(row, subset=KIND)  # what is written can be loaded
                file.write(row)
                if split == "test":
                    blind.add(row)
    return blind


def hash_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
