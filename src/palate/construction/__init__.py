"""Makes benchmarks of what users wrote."""

from palate.construction.own_text import OwnTextBuild, OwnTextSummary, build_own_text
from palate.construction.stage import Dropped, Stage, StageCounts

__all__ = ["Dropped", "OwnTextBuild", "OwnTextSummary", "Stage", "StageCounts", "build_own_text"]
