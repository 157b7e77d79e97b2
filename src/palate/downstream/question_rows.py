"""What all downstream results hold of a row: its question, its user, and its mirror row."""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar

from palate.records import Record
from palate.runs import RecordResult, TextHash


class QuestionRow(Record):
    """One row of a benchmark, without its texts."""

    id: str
    content_hash: str
    """Of question and responses, as in a run."""
    question_hash: TextHash
    """Rows of one question share what is hard about it."""
    user: str
    mirror_of: str | None


S = TypeVar("S", bound=Record)
R = TypeVar("R", bound=QuestionRow)


class QuestionResult(RecordResult[S, R]):
    """A result whose rows are clustered by user and question, or stand in mirrored couples."""

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
