"""Guided writing against enumeration: every law on models so small that all responses are listed.

The laws are computed here from the models' plain forward passes, by formulas of their own.
"""

from palate.selfcheck.decoding.checks import LawCheck
from palate.selfcheck.decoding.run import check_decoding

__all__ = ["LawCheck", "check_decoding"]
