"""Checks whether the pairs of a benchmark differ by their users' taste alone."""

from palate.construction.checks.pipeline import audit
from palate.construction.checks.result import Audit, AuditRow, AuditSummary
from palate.construction.checks.row_check import CheckOptions, CheckResult, check_rows

__all__ = [
    "Audit",
    "AuditRow",
    "AuditSummary",
    "CheckOptions",
    "CheckResult",
    "audit",
    "check_rows",
]
