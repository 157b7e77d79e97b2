"""Evaluate scorers: rows → slates → scores → verdicts → runs, and what contexts gain."""

from palate.evaluation.evaluate import Options, Progress, evaluate
from palate.evaluation.gains import gains_of
from palate.evaluation.grid import Cell, Grid, plan_grid, run_grid
from palate.evaluation.groups import by_group, check_by, groups_of
from palate.evaluation.losing import users_who_lose
from palate.evaluation.ratings import check_ratings, evaluate_ratings, ratings_of
from palate.evaluation.rows import Row, make_rows, nobody
from palate.evaluation.states import adapt_to, history_of, whose_state, with_shots
from palate.evaluation.summarise import summarise

__all__ = [
    "Cell",
    "Grid",
    "Options",
    "Progress",
    "Row",
    "adapt_to",
    "by_group",
    "check_by",
    "check_ratings",
    "evaluate",
    "evaluate_ratings",
    "gains_of",
    "groups_of",
    "history_of",
    "make_rows",
    "nobody",
    "plan_grid",
    "ratings_of",
    "run_grid",
    "summarise",
    "users_who_lose",
    "whose_state",
    "with_shots",
]
