"""The store of a study: places, answers, and what becomes of them."""

from palate.study.store.rows import read_answers
from palate.study.store.sessions import AskedEntry, Chooser, GivenAnswer, RaterState
from palate.study.store.study_store import StudyStore

__all__ = ["AskedEntry", "Chooser", "GivenAnswer", "RaterState", "StudyStore", "read_answers"]
