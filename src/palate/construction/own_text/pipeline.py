"""build_own_text(source, output, layout) → a file of pairs, and what was left out and why."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from palate.construction.blind import BlindScorers
from palate.construction.own_text.entries import Entries
from palate.construction.own_text.lamp import lamp_files, read_lamp
from palate.construction.own_text.longlamp import read_longlamp
from palate.construction.own_text.pairing import OTHERS, Answers, author_stage
from palate.construction.own_text.palate_rows import read_rows
from palate.construction.own_text.result import OwnTextBuild, OwnTextRow, OwnTextSummary
from palate.construction.own_text.selection import RowSelection
from palate.construction.own_text.spool import Spool
from palate.construction.own_text.stack_exchange import read_dump
from palate.construction.sources.stack_exchange import dump_files
from palate.construction.writing import check_output, rows_file
from palate.data import files_of, stem
from palate.data.rows import read_question
from palate.errors import DataError, ResourceError, UsageError
from palate.evaluation import Start
from palate.records import Settings
from palate.runs import Manifest
from palate.session import Session, default_session

ADAPT_ROWS = 8


LAYOUTS: Mapping[str, Callable[[list[Path]], Entries]] = {
    "longlamp": read_longlamp,
    "rows": read_rows,
    "stackexchange": read_dump,
}


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
    root: Path | str | None = "runs",
    session: Session | None = None,
    settings: Settings | None = None,
    start: Start | None = None,
) -> OwnTextBuild:
    """Write pairs of users' own texts and other texts on the same input; return what was left out.

    `layout` is lamp, longlamp, rows or stackexchange; `rejected` is `others` or a policy that
    answers where no other author wrote; `outputs` is LaMP's file of outputs where it does not lie
    beside the questions; `adapt` is the most earlier texts of a user that become adapt rows. With
    `order_as_in_file` no date is read, so that nothing is left out for not being earlier. Answers
    of a policy are kept as they come, and the same call gives the same bytes. With a `root` the
    result is kept at `root/<benchmark>/own-text/<layout>-<8 hex>`, after the file.

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
        how = start or (lambda label: lambda done, total: None)
        answers = Answers(rejected, session or default_session(), settings, how)
    benchmark = stem(output.name)
    manifest = Manifest.of(
        OwnTextBuild.kind,
        {
            "benchmark": benchmark,
            "name": layout,
            "rejected": rejected,
            "policy": answers and answers.fingerprint,
            "adapt": adapt,
            "seed": settings.seed,
            "skip_bad_rows": skip_bad_rows,
            **({"order_as_in_file": True} if order_as_in_file else {}),
        },
        inputs={path.name: hash_of_file(path) for path in files},
    )
    try:
        with closing(Spool()) as spool:
            selection = RowSelection(
                spool, skip_bad_rows=skip_bad_rows, order_as_in_file=order_as_in_file
            )
            selection.read(read(files))
            _pair(selection, spool, answers, adapt, settings.seed)
            if not spool.numbers("test"):
                raise DataError(f"leaves no test row ({selection.reasons()})", file=str(source))
            blind = _write(output, spool)
            summary = OwnTextSummary(
                benchmark=benchmark,
                layout=layout,
                policy=None if answers is None else rejected,
                rows={split: spool.counts(split) for split in ("test", "adapt")},
                stages=tuple(stage.counts for stage in selection.stages),
                undated_profile_items=selection.undated,
                blind_scorers=blind.accuracies(settings.seed),
                rows_hash=hash_of_file(output),
            )
            build = OwnTextBuild(summary, None if root is None else manifest.renew(Path(root)))
            build.save_with(OwnTextRow(**row) for row in spool.outcomes())
    except sqlite3.Error as error:
        raise ResourceError(f"the temporary file of the build: {error}; see TMPDIR") from error
    return build


def _pair(
    selection: RowSelection, spool: Spool, answers: Answers | None, adapt: int, seed: int
) -> None:
    for split in ("test", "adapt"):
        if split == "adapt":
            selection.keep_apart()
        authors = author_stage(spool, split, seed, needed=answers is None)
        selection.run(authors, spool.rows(split))
        if split == "adapt":
            selection.limit(adapt)
        if answers is not None:
            selection.run(answers.stage(spool, split), spool.keys(split))


def _layout(
    layout: str, source: Path, outputs: Path | None
) -> tuple[list[Path], Callable[[list[Path]], Entries]]:
    if layout == "lamp":
        return lamp_files(source, outputs), read_lamp
    if layout not in LAYOUTS:
        raise UsageError(f"--layout {layout}: expected one of lamp, {', '.join(LAYOUTS)}")
    if outputs is not None:
        raise UsageError(f"--outputs {outputs}: only --layout lamp has outputs in a file apart")
    files = dump_files(source) if layout == "stackexchange" else files_of(source)
    return files, LAYOUTS[layout]


def _write(output: Path, spool: Spool) -> BlindScorers:
    blind = BlindScorers()
    with rows_file(output) as file:
        for split in ("test", "adapt"):
            for row in spool.finished(split):
                read_question(row, subset=OwnTextBuild.kind)  # what is written can be loaded
                file.write(row)
                if split == "test":
                    blind.add(row)
    return blind


def hash_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
