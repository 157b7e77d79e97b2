"""Scorers, one file each."""

from palate.scorers.baselines import is_baseline
from palate.scorers.build import GROUP, build_scorer

__all__ = ["GROUP", "build_scorer", "is_baseline"]
