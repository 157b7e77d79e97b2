"""Pairs of a user's own text and another text on the same input, from public layouts."""

from palate.construction.own_text.pipeline import build_own_text
from palate.construction.own_text.result import OwnTextBuild, OwnTextSummary

__all__ = ["OwnTextBuild", "OwnTextSummary", "build_own_text"]
