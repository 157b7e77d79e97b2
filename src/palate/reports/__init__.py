"""Runs and comparisons as tables."""

from palate.html import printable
from palate.reports.grid import asked_tables, comparison_tables, grid_tables
from palate.reports.names import context_name
from palate.reports.numbers import most_common, seconds
from palate.reports.screen import screens
from palate.reports.table import Form, Table, render, stacked
from palate.reports.user_tables import cost_tables, group_tables, kind_tables, rating_tables
