"""Evaluate scorers: rows → slates → scores → verdicts → runs, and what contexts gain."""

from palate.evaluation.evaluate import Options, Progress, evaluate
from palate.evaluation.gains import gains_of
from palate.evaluation.grid import Cell, Grid, plan_grid, run_grid
from palate.evaluation.rows import Row, make_rows
from palate.evaluation.summarise import summarise

__all__ = [
    "Cell",
    "Grid",
    "Options",
    "Progress",
    "Row",
    "evaluate",
    "gains_of",
    "make_rows",
    "plan_grid",
    "run_grid",
    "summarise",
]
