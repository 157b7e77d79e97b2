"""People judge what a model is shown: a study's plan, pages and answers, and their agreement."""

from palate.study.agreement import agreement
from palate.study.collecting import CollectOptions, plan_collection
from palate.study.records import (
    DIMENSIONS,
    AnswerRow,
    GoldRow,
    ListEntry,
    Study,
    StudyItem,
    StudyPlan,
    Trait,
    read_study,
)
