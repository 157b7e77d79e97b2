"""Runs and comparisons as tables."""

from palate.html import printable
from palate.reports.comparison import tables as comparison_tables
from palate.reports.grid import grid_tables
from palate.reports.names import context_name
from palate.reports.numbers import most_common, seconds
from palate.reports.ratings import rating_tables
from palate.reports.screen import screens
from palate.reports.subgroup_tables import group_tables
from palate.reports.table import Form, Table, render, stacked

__all__ = [
    "Form",
    "Table",
    "comparison_tables",
    "context_name",
    "grid_tables",
    "group_tables",
    "most_common",
    "printable",
    "rating_tables",
    "render",
    "screens",
    "seconds",
    "stacked",
]
