"""A build of pairs as a result: what every stage kept and dropped, and what the audit showed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from palate.construction.checks.result import AuditSummary, BlindFinding
from palate.construction.pairs.drafts import PairDraft
from palate.construction.stage import StageCounts
from palate.records import Record
from palate.runs import RecordResult


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


@dataclass(frozen=True)
class PairsBuild(RecordResult[PairsSummary, PairsRow]):
    """What a build of pairs kept, and what it dropped."""

    kind: ClassVar[str] = "pairs"
    content_type, row_type = PairsSummary, PairsRow
    examples: tuple[PairDraft, ...] = field(default=(), compare=False)
    """A kept pair and a dropped one, where there are, with their texts: never on disk."""
