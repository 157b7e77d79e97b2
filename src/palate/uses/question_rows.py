"""What all downstream results hold of a row: its question, its user, and its mirror row."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

from palate.benchmarks import Dataset
from palate.errors import RunError
from palate.records import Question, Record
from palate.runs import RecordResult, TextHash, VerdictRow


class QuestionRow(Record):
    """One row of a benchmark, without its texts."""

    id: str
    content_hash: str
    """Of question and responses, as in a run."""
    question_hash: TextHash
    """Rows of one question share what is hard about it."""
    user: str
    mirror_of: str | None

    @classmethod
    def of(cls, row: Question, **values: Any) -> Self:
        """Return what is held of a row, with the values of a subclass."""
        return cls(
            id=row.id, content_hash=row.content, question_hash=VerdictRow.hash_of(row.key),
            user=row.user_id, mirror_of=getattr(row, "mirror_of", None), **values,
        )  # fmt: skip


def question_hashes(pairs: Dataset) -> list[str]:
    """Return the hash of each row's question."""
    return [VerdictRow.hash_of(row.key) for row in pairs.rows]


S = TypeVar("S", bound=Record)
R = TypeVar("R", bound=QuestionRow)


class QuestionResult(RecordResult[S, R]):
    """A result whose rows are clustered by user and question, or stand in mirrored couples."""

    @property
    def is_whole(self) -> bool:
        """Whether the rows hold what the summary tells of."""
        return True

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a finished result; raises `RunError` where there is none, or its files differ."""
        result = super().read(folder)
        if not result.is_whole:
            raise RunError(
                f"{folder}: rows.jsonl does not fit summary.json; remove the folder and run "
                f"{cls.kind} again"
            )
        return result

    @property
    def users(self) -> list[str]:
        """Of each row."""
        return [row.user for row in self.rows]

    @property
    def questions(self) -> list[str]:
        """The hash of each row's question."""
        return [row.question_hash for row in self.rows]

    @cached_property
    def mirrors(self) -> list[int] | None:
        """The number of each row's mirrored row; None where not every row has one."""
        number = {row.id: k for k, row in enumerate(self.rows)}
        mirrors = [number.get(row.mirror_of or "", -1) for row in self.rows]
        return None if -1 in mirrors else mirrors
