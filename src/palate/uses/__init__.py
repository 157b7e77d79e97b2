"""The uses of a scorer that a benchmark should predict: a room each, from a plan to a table."""

from palate.uses.downstream import CellKey, Downstream, DownstreamQuality, Origin, ScorerTable
from palate.uses.result import (
    Cell,
    CellResult,
    CellRow,
    CellSummary,
    ValueColumn,
    question_hashes,
)
from palate.uses.table import PairUnits, RowFigures, ValueTable

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
