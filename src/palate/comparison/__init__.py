"""Runs side by side, with tests."""

from palate.comparison.compare import Comparison, Group, Ranked, compare, paired_test

__all__ = ["Comparison", "Group", "Ranked", "compare", "paired_test"]
