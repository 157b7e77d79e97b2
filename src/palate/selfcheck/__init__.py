"""Planted truth: worlds of users with known tastes, and what palate must find in them."""

from palate.selfcheck.checks import WorldCheck
from palate.selfcheck.run import selfcheck

__all__ = ["WorldCheck", "selfcheck"]
