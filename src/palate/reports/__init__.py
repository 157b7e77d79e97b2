"""Runs and comparisons as tables."""

from palate.reports.comparison import comparison_tables
from palate.reports.grid import grid_tables
from palate.reports.groups import group_tables
from palate.reports.numbers import seconds
from palate.reports.ratings import rating_tables
from palate.reports.sentence import what_it_shows
from palate.reports.table import Form, Table, render

__all__ = [
    "Form",
    "Table",
    "comparison_tables",
    "grid_tables",
    "group_tables",
    "rating_tables",
    "render",
    "seconds",
    "what_it_shows",
]
