"""Makes benchmarks of what users wrote."""

from palate.construction.own_text import OwnTextBuild, build_own_text

__all__ = ["OwnTextBuild", "build_own_text"]
