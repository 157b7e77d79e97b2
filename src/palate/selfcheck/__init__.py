"""Planted truth: worlds of users with known tastes, and what palate must find in them."""

from palate.selfcheck.checks import Check
from palate.selfcheck.run import selfcheck
from palate.selfcheck.trials import Tools

__all__ = ["Check", "Tools", "selfcheck"]
