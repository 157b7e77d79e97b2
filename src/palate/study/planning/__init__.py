"""A study before anybody is asked: its items, its checks, and who is asked what."""

from palate.study.planning.page_texts import PageTexts, read_page_texts
from palate.study.planning.plan import StudyOptions, plan_study

__all__ = ["PageTexts", "StudyOptions", "plan_study", "read_page_texts"]
