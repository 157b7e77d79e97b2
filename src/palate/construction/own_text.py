"""build_own_text(source, output, layout) → a file of pairs, and what was left out and why."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from palate.answers import build_policy, draw_samples
from palate.benchmarks import Dataset
from palate.construction.filter_validation import WARN_ABOVE, accuracies_of
from palate.construction.leaks import Passage, text_key, words_of
from palate.construction.own_text_layouts import (
    ADAPT,
    Entries,
    lamp_files,
    read_lamp,
    read_longlamp,
    read_rows,
)
from palate.construction.own_text_selection import (
    PARTS,
    SORTS,
    OwnTextStore,
    RowSelection,
    StoredText,
)
from palate.construction.rows import (
    StageCounts,
    check_output,
    dropped_by_row,
    hash_of_file,
    rows_file,
)
from palate.construction.stack_exchange import dump_files, read_dump
from palate.data import files_of, read_question, stem
from palate.errors import DataError, ResourceError, RunError, UsageError, writing
from palate.evaluation import Progress, Start, Work
from palate.files import write_json, write_whole
from palate.metrics import Estimate
from palate.records import Question, Record, Settings
from palate.records.arguments import checked
from palate.runs import ROWS, SUMMARY, Manifest, Result, read_content
from palate.seeding import digest
from palate.session import Session

ADAPT_ROWS = 8
OTHERS = "others"
AT_ONCE = 256
NO_OTHER = "no other author on this input"
ALIKE = "other authors wrote nearly the same"
EMPTY, SAME = "the model's answer is empty", "the model's answer is the user's text"
IN_TEST = "the rejected text is in the test split"
USELESS = (EMPTY, SAME, IN_TEST)
"""Why a row is left out for a policy's answer."""
LAYOUTS: Mapping[str, Callable[[list[Path]], Entries]] = {
    "longlamp": read_longlamp,
    "rows": read_rows,
    "stackexchange": read_dump,
}


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
    foreign_edits: int = 0
    """Test rows whose chosen text was last edited by somebody else."""
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
                self.write_sums()

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a finished result; raises `RunError` where there is none."""
        return cls(read_content(folder, cls.kind, OwnTextSummary), folder)


@checked
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
    own_edits: bool = False,
    root: Path | str | None = "runs",
    session: Session | None = None,
    settings: Settings | None = None,
    start: Start | None = None,
) -> OwnTextBuild:
    """Write pairs of users' own texts and other texts on the same input; return what was left out.

    `layout` is lamp, longlamp, rows or stackexchange; `rejected` is `others` or a policy that
    answers where no other author wrote; `outputs` is LaMP's file of outputs where it does not lie
    beside the questions; `adapt` is the most earlier texts of a user that become adapt rows. With
    `order_as_in_file` no date is read, so that nothing is left out for not being earlier. With
    `own_edits` a dump's answers that somebody else edited last are left out. Answers
    of a policy are kept as they come, and the same call gives the same bytes. With a `root` the
    result is kept at `root/<benchmark>/own-text/<layout>-<8 hex>`, after the file.

    Raises `DataError` for a bad row, `UsageError` for options that do not fit.
    """
    source, output = Path(source), Path(output)
    work = Work.of(session, settings, root, start=start)
    check_output(output)
    if adapt < 0:
        raise UsageError(f"--adapt {adapt}: expected 0 or more")
    if own_edits and layout != "stackexchange":
        raise UsageError(f"--own-edits: a source of layout {layout} tells no editors")
    files, read = _layout(layout, source, None if outputs is None else Path(outputs))
    read = partial(read_dump, own_edits=True) if own_edits else read
    answers = None if rejected == OTHERS else Answers(rejected, work)
    identity: dict[str, Any] = {"benchmark": stem(output.name), "name": layout}
    identity |= {"rejected": rejected, "policy": answers and answers.fingerprint}
    identity |= {"adapt": adapt, "seed": work.settings.seed, "skip_bad_rows": skip_bad_rows}
    options = {"order_as_in_file": order_as_in_file, "own_edits": own_edits}
    identity |= {name: True for name, is_set in options.items() if is_set}
    inputs = {path.name: hash_of_file(path) for path in files}
    manifest = Manifest.of(OwnTextBuild.kind, identity, inputs=inputs)
    try:
        with closing(OwnTextStore()) as store:
            selection = RowSelection(
                store, skip_bad_rows=skip_bad_rows, order_as_in_file=order_as_in_file
            )
            selection.read(read(files))
            _reject_texts(selection, "test", work.settings.seed, answers)
            selection.keep_apart()
            _reject_texts(selection, ADAPT, work.settings.seed, answers, adapt)
            if not store.numbers("test"):
                raise DataError(f"leaves no test row ({selection.reasons()})", file=str(source))
            blind = accuracies_of(_write(output, store), work.settings.seed)
            edited = (row.row["id"] in selection.foreign_edits for row in store.texts("test"))
            summary = OwnTextSummary(
                benchmark=stem(output.name),
                layout=layout,
                policy=None if answers is None else rejected,
                rows={split: store.counts(split) for split in PARTS},
                stages=tuple(stage.counts for stage in selection.stages),
                undated_profile_items=selection.undated,
                foreign_edits=sum(edited),
                blind_scorers=blind,
                rows_hash=hash_of_file(output),
            )
            build = OwnTextBuild(summary, None if root is None else manifest.renew(Path(root)))
            build.save_with(OwnTextRow(**row) for row in store.outcomes())
    except sqlite3.Error as error:
        raise ResourceError(f"the temporary file of the build: {error}; see TMPDIR") from error
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
    files = dump_files(source) if layout == "stackexchange" else files_of(source)
    return files, LAYOUTS[layout]


def _write(output: Path, store: OwnTextStore) -> Iterator[dict[str, Any]]:
    """Write all rows, and yield the test rows."""
    with rows_file(output) as file:
        for split in PARTS:
            for row in store.finished(split):
                read_question(row, subset=OwnTextBuild.kind)  # what is written can be loaded
                file.write(row)
                if split == "test":
                    yield row


def _reject_texts(
    selection: RowSelection, split: str, seed: int, answers: Answers | None, most: int | None = None
) -> None:
    """Give each row of a split another author's text, else a policy's answer; or leave it out.

    Of adapt rows no more than the latest `most` of a user are answered.
    """
    authors, store = selection.stage("another author", PARTS[split]), selection.store
    lacking = ((row, _reject_author(row, store, split, seed)) for row in store.texts(split))
    needed = answers is None
    selection.leave_out(authors, ((row, why if needed else None) for row, why in lacking))
    if most is not None:
        selection.limit(most)
    if answers is not None:
        stage, useless = selection.stage("answer", PARTS[split]), answers.reject(store, split)
        selection.leave_out(stage, ((row, useless.get(row.n)) for row in store.texts(split)))


def _reject_author(row: StoredText, store: OwnTextStore, split: str, seed: int) -> str | None:
    """Reject another author's text, which the seed draws; return why there is none.

    No adapt row gets a text that a test row holds, and two texts that are nearly the same tell no
    authors apart.
    """
    chosen, shared = Passage(row.row["chosen"]), store.is_shared(row)
    for page in store.other_texts(row):
        texts = [
            text for text in page if split != ADAPT or not store.is_in_test("text", text_key(text))
        ]
        shared = shared or bool(texts)
        order = {text: digest("other author", seed, row.row["id"], text) for text in texts}
        drawn = sorted(texts, key=order.__getitem__)
        unlike = next((text for text in drawn if not chosen.is_alike(words_of(text))), None)
        if unlike is not None:
            store.reject(row.n, unlike, OTHERS)
            return None
    return ALIKE if shared else NO_OTHER


class Answers:
    """Answers of a policy, one to a question, each kept as it comes."""

    def __init__(self, policy: str, work: Work) -> None:
        self.spec, self._work = policy, work
        self._policy = build_policy(policy, work.session, work.settings)
        self.fingerprint = self._policy.fingerprint

    def draw(self, rows: Sequence[StoredText], progress: Progress) -> list[str]:
        """Return an answer to each row's question; raises what `draw_samples` does."""
        questions = tuple(
            Question(id=str(row.n), user_id=row.user, text=row.row["question"]) for row in rows
        )
        dataset, store = Dataset(self.spec, questions), self._work.session.store
        samples = draw_samples(self._policy, dataset, 1, store, progress=progress)
        return [sample.text.strip() for (sample,) in samples.of_row]

    def reject(self, store: OwnTextStore, split: str) -> dict[int, str]:
        """Reject an answer in every row that lacks a rejected text; return why some cannot be."""
        missing, useless = store.numbers(split, "rejected IS NULL"), {}
        progress = self._work.start(f"answers of {self.spec}, {split} rows") if missing else None
        done = 0
        for part in np.array_split(np.array(missing, np.int64), max(1, len(missing) // AT_ONCE)):
            rows = [store.get(int(n)) for n in part]
            texts = self.draw(rows, _from(done, len(missing), progress)) if progress else []
            done += len(rows)
            for row, text in zip(rows, texts, strict=True):
                if reason := _useless(text, row, store):
                    useless[row.n] = reason
                else:
                    store.reject(row.n, text, self.spec)
        return useless


def _from(done: int, total: int, progress: Progress) -> Progress:
    return lambda more, of_part: progress(done + more, total)


def _useless(text: str, row: StoredText, store: OwnTextStore) -> str | None:
    if not text:
        return EMPTY
    if text_key(text) == row.text or Passage(row.row["chosen"]).is_alike(words_of(text)):
        return SAME
    is_adapt = row.row["split"] == ADAPT
    return IN_TEST if is_adapt and store.is_in_test("text", text_key(text)) else None
