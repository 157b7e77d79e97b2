"""Makes benchmarks of what users wrote, and checks whether pairs differ by taste alone."""

from palate.construction.checks import Audit, AuditRow, AuditSummary, audit
from palate.construction.own_text import OwnTextBuild, OwnTextSummary, build_own_text
from palate.construction.pairs import PairsBuild, PairsOptions, PairsSummary, build_pairs
from palate.construction.stage import Dropped, Stage, StageCounts

__all__ = [
    "Audit",
    "AuditRow",
    "AuditSummary",
    "Dropped",
    "OwnTextBuild",
    "OwnTextSummary",
    "PairsBuild",
    "PairsOptions",
    "PairsSummary",
    "Stage",
    "StageCounts",
    "audit",
    "build_own_text",
    "build_pairs",
]
