"""One self-contained page from finished runs."""

from palate.reports.page.page import report
from palate.reports.page.parts import Section
from palate.reports.page.sections.example import Example

__all__ = ["Example", "Section", "report"]
