"""The uses of a scorer that a benchmark should predict: a room each, from a plan to a table."""

from palate.uses.downstream import CellKey, Downstream, DownstreamQuality, Origin, ScorerTable
from palate.uses.result import (
    Cell,
    CellResult,
    CellRow,
    CellSummary,
    ValueColumn,
    ValueTable,
)
from palate.uses.units import PairUnits, RowFigures, question_hashes

__all__ = [
    "Cell",
    "CellKey",
    "CellResult",
    "CellRow",
    "CellSummary",
    "Downstream",
    "DownstreamQuality",
    "Origin",
    "PairUnits",
    "RowFigures",
    "ScorerTable",
    "ValueColumn",
    "ValueTable",
    "question_hashes",
]
