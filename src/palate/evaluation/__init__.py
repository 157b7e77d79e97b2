"""Evaluate a scorer: rows → slates → scores → verdicts → a run."""

from palate.evaluation.computing import Computation, Options, Progress, Start
from palate.evaluation.evaluate import evaluate, meaningless, refuse, shown_by, spec_of
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
    "Computation",
    "Options",
    "Progress",
    "Row",
    "Start",
    "adapt_to",
    "evaluate",
    "history_of",
    "make_rows",
    "meaningless",
    "need_choices",
    "nobody",
    "refuse",
    "shown_by",
    "spec_of",
    "summarise",
    "whose_state",
    "with_shots",
    "with_states",
]
