"""Runs side by side: grids and what contexts gained, tests, groups of users, users' ratings."""

from palate.comparison.by_group import check_by, groups_of, users_harmed
from palate.comparison.compare import Comparison, ComparisonGroup, RankedRun, compare
from palate.comparison.evaluate import evaluate
from palate.comparison.findings import Finding, findings_of, oracle_runs
from palate.comparison.gains import MARGIN, IdentityParts, costs_of, gain, gains_of
from palate.comparison.grid import Grid, PlannedCell, plan_grid, run_grid
from palate.comparison.ratings import check_ratings, ratings_of
