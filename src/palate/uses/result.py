"""The one shape of a use's result: scorers under contexts, columns of numbers, a value by row."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from pydantic import FiniteFloat

from palate.benchmarks import Dataset
from palate.errors import RunError
from palate.records import Question, Record
from palate.runs import Manifest, RecordResult, TextHash, VerdictRow
from palate.runs.result import arrow_of
from palate.seeding import digest
from palate.uses.downstream import Downstream, DownstreamQuality, Origin, rows_of_all
from palate.uses.units import Doubles, RowFigures


class Cell(Record):
    """One scorer under one context, as a use holds it; a kind adds its figures."""

    scorer: str
    context: str
    oracle: bool = False
    models: tuple[str, ...] = ()
    """What its numbers come from: content hashes of model folders, names of served models."""
    fingerprints: tuple[str, ...] = ()
    """Of each computation behind them."""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, scored: Any, **figures: Any) -> Self:
        """Return the cell of a summary, of a run or of scores of answers, with a kind's figures."""
        return cls(
            scorer=scored.scorer,
            context=scored.context,
            oracle=scored.oracle,
            models=scored.models,
            notes=scored.notes,
            **{"fingerprints": getattr(scored, "fingerprints", ()), **figures},
        )


class ValueColumn(Record):
    """What one number of every row is."""

    cell: int | None
    """Number of the cell among the summary's; None for what no scorer had a part in."""
    measure: str
    """Of what it is a value, such as a measure of quality."""
    setting: str = ""
    """What tells apart the columns of one cell and measure, such as `best of 4`."""
    surrogate: bool = False
    couples: bool = False
    """Whether figures are over mirrored couples, as of a contrast."""


class CellRow(Record):
    """One row of a benchmark, without its texts, and its value in every column."""

    id: str
    content_hash: str
    """Of question and responses, as in a run."""
    question_hash: TextHash
    """Rows of one question share what is hard about it."""
    user: str
    mirror_of: str | None
    values: tuple[FiniteFloat | None, ...]
    """One for each of the summary's columns; null where the row has none."""

    @classmethod
    def of(cls, row: Question, values: Sequence[float]) -> Self:
        """Return what is held of a row; NaN is no value."""
        return cls(
            id=row.id,
            content_hash=row.content,
            question_hash=VerdictRow.hash_of(row.key),
            user=row.user_id,
            mirror_of=getattr(row, "mirror_of", None),
            values=tuple(None if np.isnan(value) else float(value) for value in values),
        )


C = TypeVar("C", bound=Cell)


class CellSummary(Record, Generic[C]):
    """What every summary of a use holds; a kind adds its figures."""

    benchmark: str
    cells: tuple[C, ...]
    columns: tuple[ValueColumn, ...]
    """What the values of each row are."""


S = TypeVar("S", bound=CellSummary[Any])


@dataclass
class ValueTable:
    """The columns of a result in the making."""

    pairs: Dataset
    columns: list[ValueColumn] = field(default_factory=list)
    values: list[Doubles] = field(default_factory=list)

    def add(self, column: ValueColumn, values: Doubles) -> None:
        """Add a column with its value of every row; NaN where a row has none."""
        self.columns.append(column)
        self.values.append(values)

    def rows(self) -> tuple[CellRow, ...]:
        """Return every row with its values."""
        table = np.stack(self.values, axis=1)
        both = zip(self.pairs.rows, table, strict=True)
        return tuple(CellRow.of(row, values.tolist()) for row, values in both)


class CellResult(RecordResult[S, CellRow], ABC):
    """What one use makes of several scorers: figures by cell, and the numbers that they rest on.

    `validity` asks how well a benchmark predicts it, unless `predicted` is false.
    """

    row_type = CellRow
    predicted: ClassVar[bool] = True
    """Whether its values are what a benchmark should predict."""

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

    def saved(self, root: Path | None, manifest: Manifest) -> Self:
        """Return it written under a root; without one, as it is."""
        if root is None:
            return self
        result = replace(self, folder=manifest.renew(root))
        result.save()
        return result

    @property
    def is_whole(self) -> bool:
        """Whether every row has a value for each column, and a contrast its couples."""
        columns = self.summary.columns
        whole = {len(row.values) for row in self.rows} == {len(columns)}
        return whole and (self.mirrors is not None or not any(it.couples for it in columns))

    @cached_property
    def values(self) -> Doubles:
        """Rows × columns; NaN where a row has no value."""
        return np.array([row.values for row in self.rows], dtype=np.float64)

    @property
    def users(self) -> list[str]:
        """Of each row."""
        return [row.user for row in self.rows]

    @property
    def questions(self) -> list[str]:
        """The hash of each row's question."""
        return [row.question_hash for row in self.rows]

    @property
    def figures(self) -> RowFigures:
        """Means and gains over its rows."""
        return RowFigures(self.users, self.questions)

    @cached_property
    def mirrors(self) -> list[int] | None:
        """The number of each row's mirrored row; None where not every row has one."""
        number = {row.id: k for k, row in enumerate(self.rows)}
        mirrors = [number.get(row.mirror_of or "", -1) for row in self.rows]
        return None if -1 in mirrors else mirrors

    @property
    def where(self) -> str:
        """What a message calls it: its folder, or of what it is where it is in memory alone."""
        of = getattr(self.summary, "policy", self.summary.benchmark)
        return str(self.folder or f"{self.kind} of {of}")

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield every value as one record: row, user, scorer, context, measure, setting, value.

        `pandas.DataFrame(result.records())` is the long table of any use.
        """
        for column, values in zip(self.summary.columns, self.values.T, strict=True):
            cell = None if column.cell is None else self.summary.cells[column.cell]
            named = {
                "scorer": cell and cell.scorer,
                "context": cell and cell.context,
                "measure": column.measure,
                "setting": column.setting,
            }
            for row, value in zip(self.rows, values.tolist(), strict=True):
                number = None if np.isnan(value) else value
                yield {"id": row.id, "user": row.user, **named, "value": number}

    def to_arrow(self) -> Any:
        """Return `records()` as a `pyarrow.Table`; raises `UsageError` without pyarrow."""
        return arrow_of(list(self.records()))

    def downstream(self, k: int | None = None) -> list[Downstream]:
        """Return what a benchmark should predict: a value by scorer and row; oracles are left out.

        Every measure and setting is one, over the rows with a value of every scorer. `k` is the
        size of a best of n; other uses have none.
        """
        del k
        by: dict[tuple[str, str], list[int]] = {}
        for number, column in enumerate(self.summary.columns):
            if column.cell is not None:
                by.setdefault((column.measure, column.setting), []).append(number)
        return [
            self.measured(numbers, setting, setting or measure, samples=digest(self.kind, setting))
            for (measure, setting), numbers in by.items()
        ]

    def measured(
        self,
        numbers: Sequence[int],
        answers: str,
        rated: str,
        *,
        samples: str,
        k: int | None = None,
        n_samples: int | None = None,
        complete: bool = True,
        shared: bool = True,
        benchmark: str | None = None,
    ) -> Downstream:
        """Return columns of one measure, of several scorers, as what a benchmark should predict.

        `answers` and `rated` are those of `DownstreamQuality`. Where `shared`, scorers are held to
        the rows with a value of every one of them; else one without any value is left out.
        """
        summary = self.summary
        columns = [summary.columns[number] for number in numbers]
        listed = [
            (summary.cells[column.cell], self.values[:, number])
            for number, column in zip(numbers, columns, strict=True)
            if column.cell is not None and not summary.cells[column.cell].oracle
        ]
        values = {
            (cell.scorer, cell.context): own
            for cell, own in listed
            if shared or not np.isnan(own).all()
        }
        if shared and values:
            keep = rows_of_all(np.stack([*values.values()], axis=1), self.where)
            values = {key: np.where(keep, own, np.nan) for key, own in values.items()}
            complete = complete and bool(keep.all())
        of = DownstreamQuality(
            benchmark=benchmark or summary.benchmark,
            policy=getattr(summary, "policy", ""),
            quality=columns[0].measure,
            surrogate=columns[0].surrogate,
            answers=answers,
            rated=rated,
            k=k,
            n_samples=n_samples,
        )
        return Downstream(
            kind=self.kind,
            of=of,
            samples=samples,
            values=values,
            rows={row.id: row.content_hash for row in self.rows},
            figures=self.figures,
            mirrors=self.mirrors if columns[0].couples else None,
            origins={
                (cell.scorer, cell.context): Origin(cell.models, cell.fingerprints, self.where)
                for cell, _ in listed
            },
            complete=complete,
        )
