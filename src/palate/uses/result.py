"""The one shape of a use's result: scorers under contexts, columns of numbers, a value by row."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from pydantic import FiniteFloat

from palate.benchmarks import Dataset
from palate.errors import ComparisonError, RunError
from palate.metrics import Estimate
from palate.records import Question, Record
from palate.runs import Manifest, RecordResult, TextHash, VerdictRow
from palate.runs.result import arrow_of
from palate.seeding import digest
from palate.uses.units import CellKey, Doubles, Downstream, DownstreamQuality, Origin, RowFigures

if TYPE_CHECKING:
    from palate.answers import Samples
    from palate.quality import QualityMetric, SampleQuality


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
        named = {name: getattr(scored, name, ()) for name in Cell.model_fields}
        return cls(**{**named, **figures})

    @property
    def key(self) -> CellKey:
        """Specs of scorer and context."""
        return self.scorer, self.context


class RatedQuality(Record):
    """One measure of the quality of some answers; a kind adds its figures."""

    quality: str
    surrogate: bool
    contrast: bool
    """Whether quality is a contrast, minus that for the mirrored user; values are over couples."""
    mean: Estimate

    @classmethod
    def of(cls, rated: SampleQuality, rows: RowFigures, **figures: Any) -> Self:
        """Return the level of a measure, of each row's mean, with a kind's figures."""
        figures |= {"quality": rated.quality, "surrogate": rated.surrogate}
        figures |= {"contrast": rated.mirrors is not None, "unrated": rated.reasons}
        return cls(mean=rows.mean(rated.means, rated.mirrors), **figures)


class QualityLevel(RatedQuality):
    """One measure of the quality of answers."""

    unrated: dict[str, int]
    """Why answers have no quality."""


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
            question_hash=VerdictRow.hash_of(row.normal_key),
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


def answers_manifest(
    kind: str,
    pairs: Dataset,
    samples: Samples,
    qualities: Sequence[QualityMetric],
    parts: Mapping[str, Any],
    inputs: Mapping[str, str],
    **options: Any,
) -> Manifest:
    """Return the manifest of a result about rated answers of a policy."""
    identity = {
        "benchmark": pairs.name,
        "name": samples.policy,
        "rows": pairs.content_hash,
        "samples": samples.content,
        **parts,
        "qualities": {quality.spec: quality.fingerprint for quality in qualities},
        **options,
    }
    details = tuple(quality.details for quality in qualities)
    inputs = {"samples": samples.content, **inputs}
    return Manifest.of(kind, identity, inputs=inputs, details=details)


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

    def rate(
        self, rated: SampleQuality, cell: int | None, setting: str, values: Doubles | None = None
    ) -> None:
        """Add a column of a measure of quality, by default of each row's mean."""
        surrogate, couples = rated.surrogate, rated.mirrors is not None
        column = ValueColumn(
            cell=cell, measure=rated.quality, setting=setting, surrogate=surrogate, couples=couples
        )
        self.add(column, rated.means if values is None else values)

    def rows(self) -> tuple[CellRow, ...]:
        """Return every row with its values."""
        table = np.stack(self.values, axis=1).tolist()
        return tuple(map(CellRow.of, self.pairs.rows, table))


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

    @property
    def is_whole(self) -> bool:
        """Whether every row has a value for each column, and a contrast its couples."""
        columns = self.summary.columns
        whole = {len(row.values) for row in self.rows} == {len(columns)}
        couples = any(column.couples for column in columns)
        return whole and (self.mirrors is not None or not couples)

    @cached_property
    def values(self) -> Doubles:
        """Rows × columns; NaN where a row has no value."""
        return np.array([row.values for row in self.rows], dtype=np.float64)

    @property
    def figures(self) -> RowFigures:
        """Means and gains over its rows."""
        return RowFigures([row.user for row in self.rows], [row.question_hash for row in self.rows])

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
            named = {"scorer": cell and cell.scorer, "context": cell and cell.context}
            named |= {"measure": column.measure, "setting": column.setting}
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
        return [
            self.measured(numbers, setting, setting or measure, samples=digest(self.kind, setting))
            for (measure, setting), numbers in self.ranked().items()
        ]

    def ranked(self, setting: str | None = None) -> dict[tuple[str, str], list[int]]:
        """Return, by measure and setting, the columns of every scorer; oracles are left out.

        Those of one `setting`, where it is given.
        """
        by: dict[tuple[str, str], list[int]] = {}
        for number, column in enumerate(self.summary.columns):
            if column.cell is None or setting not in (None, column.setting):
                continue
            if not self.summary.cells[column.cell].oracle:
                by.setdefault((column.measure, column.setting), []).append(number)
        return by

    def cells_of(self, numbers: Sequence[int]) -> list[Any]:
        """Return the cell of each column of a scorer."""
        columns, cells = self.summary.columns, self.summary.cells
        return [cells[at] for n in numbers if (at := columns[n].cell) is not None]

    def measured(
        self,
        numbers: Sequence[int],
        answers: str,
        rated: str,
        *,
        samples: str,
        complete: bool = True,
        shared: bool = True,
        **of: Any,
    ) -> Downstream:
        """Return columns of one measure, of several `ranked` scorers, as what should be predicted.

        `answers`, `rated` and more (`of`) are those of `DownstreamQuality`. Where `shared`, scorers
        are held to the rows with a value of every one; else one without any value is left out.
        """
        cells = self.cells_of(numbers)
        values = {c.key: self.values[:, n] for n, c in zip(numbers, cells, strict=True)}
        if not shared:
            values = {key: column for key, column in values.items() if not np.isnan(column).all()}
        else:
            known = ~np.isnan([*values.values()]).any(axis=0)
            if not known.any():
                raise ComparisonError(
                    f"validity: {self.where} has no row with a value of every scorer; run it again "
                    "without the scorer or context that has the fewest"
                )
            values = {key: np.where(known, column, np.nan) for key, column in values.items()}
            complete = complete and bool(known.all())
        first = self.summary.columns[numbers[0]]
        policy = getattr(self.summary, "policy", "")
        named = {"benchmark": self.summary.benchmark, "policy": policy, "quality": first.measure}
        named |= {"surrogate": first.surrogate, "answers": answers, "rated": rated}
        return Downstream(
            self.kind,
            DownstreamQuality(**{**named, **of}),
            samples,
            values,
            {row.id: row.content_hash for row in self.rows},
            self.figures,
            self.mirrors if first.couples else None,
            {c.key: Origin(c.models, c.fingerprints, self.where) for c in cells},
            complete,
        )
