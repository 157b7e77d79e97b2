"""Pairs of a user's own text and another text on the same input, from public layouts."""

from palate.construction.own_text.build import OwnTextBuild, build_own_text

__all__ = ["OwnTextBuild", "build_own_text"]
