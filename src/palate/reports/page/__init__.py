"""One self-contained HTML page from finished runs."""

from palate.reports.page.page import report

__all__ = ["report"]
