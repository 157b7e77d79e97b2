"""The uses of a scorer that a benchmark should predict: a room each, from a plan to a table."""

from palate.uses.downstream import CellKey, Downstream, DownstreamQuality, Origin, ScorerTable
from palate.uses.result import QuestionRow, UseResult, question_hashes

__all__ = [
    "CellKey",
    "Downstream",
    "DownstreamQuality",
    "Origin",
    "QuestionRow",
    "ScorerTable",
    "UseResult",
    "question_hashes",
]
