"""Evaluate scorers: rows → slates → scores → verdicts → runs, and what contexts gain."""

from palate.evaluation.evaluate import Options, Progress, evaluate
from palate.evaluation.gains import gains_of
from palate.evaluation.grid import Cell, Grid, plan_grid, run_grid
from palate.evaluation.rows import Row, make_rows, nobody
from palate.evaluation.states import adapt_to, history_of, whose_state
from palate.evaluation.summarise import summarise

__all__ = [
    "Cell",
    "Grid",
    "Options",
    "Progress",
    "Row",
    "adapt_to",
    "evaluate",
    "gains_of",
    "history_of",
    "make_rows",
    "nobody",
    "plan_grid",
    "run_grid",
    "summarise",
    "whose_state",
]
