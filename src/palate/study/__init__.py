"""People judge what a model is shown: a study's plan, pages and answers, and their agreement."""

from palate.study.folder import Study, read_study
from palate.study.records import (
    DIMENSIONS,
    AnswerRow,
    Choice,
    GoldRow,
    ListEntry,
    Side,
    StudyItem,
    StudyPlan,
    Trait,
)

__all__ = [
    "DIMENSIONS",
    "AnswerRow",
    "Choice",
    "GoldRow",
    "ListEntry",
    "Side",
    "Study",
    "StudyItem",
    "StudyPlan",
    "Trait",
    "read_study",
]
