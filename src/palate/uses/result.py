"""What the results of all uses have in common: rows of questions, and what a benchmark predicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from palate.benchmarks import Dataset
from palate.errors import RunError
from palate.records import Question, Record
from palate.runs import RecordResult, TextHash, VerdictRow
from palate.uses.downstream import CellKey, Doubles, Downstream, DownstreamQuality, Origin


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
            id=row.id,
            content_hash=row.content,
            question_hash=VerdictRow.hash_of(row.key),
            user=row.user_id,
            mirror_of=getattr(row, "mirror_of", None),
            **values,
        )


def question_hashes(pairs: Dataset) -> list[str]:
    """Return the hash of each row's question."""
    return [VerdictRow.hash_of(row.key) for row in pairs.rows]


class Made(Protocol):
    """What made a scorer's numbers."""

    @property
    def models(self) -> tuple[str, ...]:
        """Content hashes of model folders, names of served models."""

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Of each computation."""


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


class UseResult(QuestionResult[S, R], ABC):
    """What one use makes of several scorers; `validity` asks how well a benchmark predicts it."""

    @abstractmethod
    def downstream(self, k: int | None = None) -> list[Downstream]:
        """Return each measure of what users get, by scorer; oracles are left out.

        `k` is the size of a best of n; other uses have none.
        """

    @property
    def where(self) -> str:
        """What a message calls it: its folder, or of what it is where it is in memory alone."""
        return str(self.folder or f"{self.kind} of {self.summary.policy}")  # type: ignore[attr-defined]

    def measured(
        self,
        of: DownstreamQuality,
        values: Mapping[CellKey, Doubles],
        cells: Mapping[CellKey, Made],
        *,
        samples: str,
        mirrored: bool,
        complete: bool,
    ) -> Downstream:
        """Return one measure of quality over this result's rows.

        `cells` says what made each scorer's values; where `mirrored`, units are couples.
        """
        return Downstream(
            kind=self.kind,
            of=of,
            samples=samples,
            values=values,
            rows={row.id: row.content_hash for row in self.rows},
            users=np.array(self.users),
            questions=np.array(self.questions),
            mirrors=np.array(self.mirrors) if mirrored else None,
            origins={
                key: Origin(cell.models, cell.fingerprints, self.where)
                for key, cell in cells.items()
            },
            complete=complete,
        )
