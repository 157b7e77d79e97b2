"""Runs side by side, with tests."""

from palate.comparison.compare import Comparison, Ranked, compare, paired_test

__all__ = ["Comparison", "Ranked", "compare", "paired_test"]
