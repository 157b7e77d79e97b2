"""Records of a build of pairs: options, drafts on their way, rows and summary; and its data set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from palate.construction.audit import GAP, check_filters
from palate.construction.audit_records import AuditSummary, BlindFinding
from palate.construction.pair_writing import WrittenPair
from palate.construction.rows import Dropped, StageCounts
from palate.data import read_question
from palate.errors import DataError, UsageError, needing, writing
from palate.files import whole_file
from palate.records import PreferencePair, Question, Record
from palate.runs import RecordResult
from palate.specs import Spec

MIRROR, VIOLATE = "mirror", "violate"
FOR_ONCE = {"limit", "licence"}
"""Options that make no other build: a larger call goes on in the same folder."""


class PairsOptions(Record):
    """Who reads and writes, and which pairs stay."""

    layout: str
    writers: tuple[str, ...]
    """Policies; the seed draws which of them writes a pair."""
    reader: str | None = None
    """The policy that reads what a user expects of an answer, where rows have no rubric."""
    attempts: int = 3
    """Most samples of the reader for one user and question."""
    rejected: str = MIRROR
    """`mirror`: what another user prefers; `violate`: an answer against the user's own rubric."""
    writer_context: str = "none"
    """`none`, or `profile:N`: whether writers are shown posts."""
    words: str = "70-100"
    drafts: int = 2
    """Samples of each answer, of which the two nearest in length stay."""
    adherence: str | None = None
    gap: str = GAP
    blind: str | None = None
    apart: float | None = None
    against: tuple[Path, ...] = ()
    keep_ids: bool = False
    skip_bad_rows: bool = False
    limit: int | None = None
    """Of the source's questions the first ones."""
    licence: str | None = None

    def check(self) -> None:
        """Raise `UsageError` for an option that cannot be."""
        if not self.writers:
            raise UsageError("--writer: who is to write the answers? Name a model")
        if self.rejected not in (MIRROR, VIOLATE):
            raise UsageError(f"--rejected {self.rejected}: expected {MIRROR} or {VIOLATE}")
        check_filters(self.adherence, self.gap, self.blind, self.apart)
        if not re.fullmatch(r"none|profile:[1-9]\d*", self.writer_context):
            raise UsageError(
                f"--writer-context {self.writer_context}: expected none or profile:N, as profile:10"
            )
        for name in ("attempts", "drafts", "limit"):
            if (number := getattr(self, name)) is not None and number < 1:
                raise UsageError(f"--{name} {number}: expected 1 or more")


class PairDraft(NamedTuple):
    """A question, and what the stages have added to it."""

    question: Question
    mirror: Question | None = None
    """The question of the mirror user; None where the rejected answer violates the rubric."""
    has_asked: bool = False
    """Whether the mirror user asked it."""
    writer: str | None = None
    pairs: tuple[PreferencePair, ...] = ()
    """Once they are written: the pair, or the two of the couple."""
    stage: str | None = None
    """The stage that dropped it."""
    reason: str | None = None

    @property
    def questions(self) -> tuple[Question, ...]:
        """The question, and the mirror user's where there is one."""
        return (self.question,) if self.mirror is None else (self.question, self.mirror)


def with_answers(draft: PairDraft, answers: WrittenPair) -> PairDraft | Dropped:
    """Return a draft with its pairs as palate reads them; dropped where the contract refuses them.

    In a couple each user chooses the answer that the other rejects.
    """
    texts = answers.chosen, answers.rejected
    mirrors = [None] if draft.mirror is None else [draft.mirror.id, draft.question.id]
    pairs = []
    try:
        for question, mirror in zip(draft.questions, mirrors, strict=True):
            choice = dict(zip(("chosen", "rejected"), texts, strict=True))
            row = {**question.to_row(), "split": None, "mirror_of": mirror, **choice}
            pair = read_question(row, subset=question.subset)
            assert isinstance(pair, PreferencePair)
            pairs.append(pair)
            texts = texts[::-1]
    except DataError as error:
        return Dropped(f"{error.field}: {error.problem}")
    return draft._replace(pairs=tuple(pairs), writer=answers.writer)


class PairsSummary(Record):
    """Everything `palate build pairs` prints."""

    benchmark: str
    layout: str
    rejected: str
    """`mirror`, or `violate`."""
    reader: str | None
    writers: Mapping[str, int]
    """By the spec of each: how many of the kept pairs it wrote, the two of a couple once."""
    pairs: int
    couples: int
    users: int
    questions: int
    askers: int
    """Users of the source who ask a question."""
    never_asked: int
    """Kept couples whose mirror user never asked the question."""
    stages: tuple[StageCounts, ...]
    """In their order; each reads what the one before kept."""
    audit: AuditSummary | None
    """Of all pairs that were written; it says which are dropped. None where none was written."""
    without_user: tuple[BlindFinding, ...]
    """Of the kept pairs; empty where they are mirrored."""
    dataset_hash: str | None
    """SHA-256 of the Parquet file."""


class PairsRow(Record):
    """A question of the source: in the data set, or dropped."""

    id: str
    user: str
    mirror_user: str | None
    mirror_user_asked: bool | None
    writer: str | None
    stage: str | None
    """Which stage dropped it; None for a row of the data set."""
    reason: str | None

    @classmethod
    def of(cls, draft: PairDraft) -> PairsRow:
        """Return the row of the last state of a question."""
        question, mirror = draft.question, draft.mirror
        return cls(
            id=question.id,
            user=question.user_id,
            mirror_user=mirror and mirror.user_id,
            mirror_user_asked=None if mirror is None else draft.has_asked,
            writer=draft.writer,
            stage=draft.stage,
            reason=draft.reason,
        )


@dataclass(frozen=True)
class PairsBuild(RecordResult[PairsSummary, PairsRow]):
    """What a build of pairs kept, and what it dropped."""

    kind: ClassVar[str] = "pairs"
    content_type, row_type = PairsSummary, PairsRow
    examples: tuple[PairDraft, ...] = field(default=(), compare=False)
    """A kept pair and a dropped one, where there are, with their texts: never on disk."""


FILE = "test-00000-of-00001.parquet"
"""A name by which `datasets` knows the split, without a configuration."""
TEXTS = (
    "id", "user_id", "subset", "category", "date", "question", "chosen", "rejected", "mirror_of",
    "narrative", "reference", "attribution", "source_url",
)  # fmt: skip
LISTS = {
    "turns": ("role", "content"),
    "profile": ("id", "category", "text", "date"),
    "rubric_aspects": ("aspect", "reason", "evidence"),
}
CARD = "README.md"
TAGS = ["palate", "preference", "personalization", "synthetic"]
SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K"}
SPECS = {"reader", "writers", "adherence", "blind"}
NOT_OPTIONS = {"benchmark", "name", "fingerprints"}


def write_pairs(folder: Path, pairs: Sequence[PreferencePair]) -> Path:
    """Write the pairs' columns that hold anything, every text and date as a string; same bytes.

    Raises `ResourceError` where that cannot be written.
    """
    pa, parquet = import_pyarrow()
    rows = [pair.to_row() for pair in pairs]
    text = pa.string()

    def struct(names: Iterable[str]) -> Any:
        return pa.struct([(name, text) for name in names])

    types = {
        **dict.fromkeys(TEXTS, text),
        **{name: pa.list_(struct(names)) for name, names in LISTS.items()},
        "traits": struct(sorted({name for row in rows for name in row["traits"]})),
    }
    columns = [(n, of) for n, of in types.items() if any(row.get(n) for row in rows)]
    table = pa.Table.from_pylist(rows, schema=pa.schema(columns))
    path = folder / FILE
    with writing(path), whole_file(path) as stream:
        parquet.write_table(table, stream)
    return path


def import_pyarrow() -> tuple[Any, Any]:
    """Return `pyarrow` and its Parquet; raises `UsageError` where they are not installed."""
    with needing("build pairs needs", "hub"):
        import huggingface_hub  # noqa: F401 - writes the card
        import pyarrow
        import pyarrow.parquet
    return pyarrow, pyarrow.parquet


def card_of(
    summary: PairsSummary, identity: Mapping[str, Any], licence: str | None, attributed: int
) -> str:
    """Return the card as Markdown with metadata that a hub reads.

    `identity` is the manifest's, `attributed` the rows whose authors are named.
    """
    from huggingface_hub import DatasetCard, DatasetCardData

    size = next((name for most, name in SIZES.items() if summary.pairs < most), "100K<n<1M")
    data = DatasetCardData(
        license=licence, pretty_name=summary.benchmark, tags=TAGS, size_categories=[size]
    )
    unused = frozenset() if identity["adherence"] else {"gap"}
    options = {
        name.replace("_", " "): _words(value, name in SPECS)
        for name, value in identity.items()
        if name not in NOT_OPTIONS | unused and value not in (None, False, [], ())
    }
    template = files(__package__).joinpath("dataset_card.jinja").read_text(encoding="utf-8")
    card = DatasetCard.from_template(
        data,
        template_str=template,
        summary=summary,
        options=options,
        writers={_public(spec): n for spec, n in summary.writers.items()},
        findings=[*_findings(summary)],
        licence=licence,
        attributed=attributed,
    )
    return f"{card}\n"


def _findings(summary: PairsSummary) -> Iterator[str]:
    audited = summary.audit
    if audited is None:
        return
    for check in audited.checks:
        of = f"{check.n_failed} of {check.n_checked} written rows fail"
        unseen = check.name in audited.unseen
        counts = "; it is not shown to see, and counts for nothing" if unseen else ""
        yield f"`{check.name}`: " + (f"needs {check.needs}" if check.needs else f"{of}{counts}")
    for gap in audited.gaps:
        yield f"Gaps of {gap.n_above} of {gap.n} written {gap.of} are above {gap.limit}."
    for sight in audited.sights:
        sees = f"`{sight.filter}` prefers its text to {sight.other}"
        yield f"{sees}: {sight.won} of {sight.n} times, {sight.finding}."
    if not summary.without_user:
        yield "Length and style are at ½ by law: each response is chosen once and rejected once."
    for finding in summary.without_user:
        yield f"`{finding.scorer}` without the user: {finding.accuracy.value}; {finding.words}."
    for filtered_by in filter(None, (audited.adherence, audited.blind)):
        yield f"`{_public(filtered_by)}` chose these pairs: its own figures on them prove nothing."


def _words(option: object, is_spec: bool) -> str:
    values = option if isinstance(option, list | tuple) else [option]
    return ", ".join(_public(str(value)) if is_spec else str(value) for value in values)


def _public(spec: str) -> str:
    """Return a spec without the address of an endpoint."""
    return str(Spec.parse(f"model:{spec}").having(base_url=None)).removeprefix("model:")
