"""Evaluate a scorer: rows → slates → scores → verdicts → a run."""

from palate.evaluation.computing import Computation, Options, Progress, Start
from palate.evaluation.evaluate import evaluate
from palate.evaluation.job import Job, meaningless, refuse, spec_of
from palate.evaluation.rows import Rows, make_rows, own_state
from palate.evaluation.scale import COMMON_PAIRS, root_margins
from palate.evaluation.states import (
    KeepsStates,
    adapt_to,
    history_of,
    need_choices,
    whose_state,
    with_shots,
    with_states,
)
from palate.evaluation.summarise import summarise

__all__ = [
    "COMMON_PAIRS",
    "Computation",
    "Job",
    "KeepsStates",
    "Options",
    "Progress",
    "Rows",
    "Start",
    "adapt_to",
    "evaluate",
    "history_of",
    "make_rows",
    "meaningless",
    "need_choices",
    "own_state",
    "refuse",
    "root_margins",
    "spec_of",
    "summarise",
    "whose_state",
    "with_shots",
    "with_states",
]
