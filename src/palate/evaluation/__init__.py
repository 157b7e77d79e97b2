"""Evaluate a scorer: rows → slates → scores → verdicts → a run."""

from palate.evaluation.evaluate import Options, Progress, evaluate, meaningless, refuse
from palate.evaluation.rows import Row, make_rows, nobody
from palate.evaluation.states import (
    adapt_to,
    history_of,
    need_choices,
    whose_state,
    with_shots,
    with_states,
)
from palate.evaluation.summarise import summarise

__all__ = [
    "Options",
    "Progress",
    "Row",
    "adapt_to",
    "evaluate",
    "history_of",
    "make_rows",
    "meaningless",
    "need_choices",
    "nobody",
    "refuse",
    "summarise",
    "whose_state",
    "with_shots",
    "with_states",
]
