"""Runs side by side: grids and what contexts gained, tests, groups of users, users' ratings."""

from palate.comparison.by_group import check_by, groups_of
from palate.comparison.compare import Comparison, ComparisonGroup, RankedRun, compare
from palate.comparison.evaluate import evaluate
from palate.comparison.findings import Finding, findings_of, oracle_runs
from palate.comparison.gains import gain, gains_of
from palate.comparison.grid import Grid, PlannedCell, plan_grid, run_grid
from palate.comparison.harmed import users_harmed
from palate.comparison.ratings import check_ratings, ratings_of

__all__ = [
    "Comparison",
    "ComparisonGroup",
    "Finding",
    "Grid",
    "PlannedCell",
    "RankedRun",
    "check_by",
    "check_ratings",
    "compare",
    "evaluate",
    "findings_of",
    "gain",
    "gains_of",
    "groups_of",
    "oracle_runs",
    "plan_grid",
    "ratings_of",
    "run_grid",
    "users_harmed",
]
