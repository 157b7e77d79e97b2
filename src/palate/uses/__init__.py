"""The uses of a scorer that a benchmark should predict: a room each, from a plan to a table."""

from palate.uses.result import Cell, CellResult, CellRow, CellSummary, ValueColumn, ValueTable
from palate.uses.units import (
    CellKey,
    Downstream,
    DownstreamQuality,
    Origin,
    RowFigures,
    ScorerTable,
)
