"""Evaluate a scorer: rows → slates → scores → verdicts → a run."""

from palate.evaluation.again import USUAL, SampledRows, Twice
from palate.evaluation.bound_scorer import BoundScorer, not_applicable, refuse, spec_of
from palate.evaluation.computation import Computation
from palate.evaluation.context_rows import (
    ContextRow,
    ContextRows,
    LiveUsers,
    make_rows,
    no_user_keys,
    own_user_keys,
)
from palate.evaluation.evaluate import evaluate, evaluated, evaluated_or_shard
from palate.evaluation.scale import COMMON_PAIRS, root_margins, state_scales
from palate.evaluation.states import (
    HasStates,
    adapt_to,
    history_of,
    need_choices,
    user_keys_fn,
    with_shots,
    with_states,
)
from palate.evaluation.summary import concordance, summarise
from palate.evaluation.undecided import JOURNAL, beside
from palate.evaluation.verdict_rows import (
    combined,
    need_replies,
    row_of,
    verdict_rows,
    void_reason,
)
from palate.evaluation.work import Start, Work, silent
from palate.records import Progress

__all__ = [
    "COMMON_PAIRS",
    "JOURNAL",
    "USUAL",
    "BoundScorer",
    "Computation",
    "ContextRow",
    "ContextRows",
    "HasStates",
    "LiveUsers",
    "Progress",
    "SampledRows",
    "Start",
    "Twice",
    "Work",
    "adapt_to",
    "beside",
    "combined",
    "concordance",
    "evaluate",
    "evaluated",
    "evaluated_or_shard",
    "history_of",
    "make_rows",
    "need_choices",
    "need_replies",
    "no_user_keys",
    "not_applicable",
    "own_user_keys",
    "refuse",
    "root_margins",
    "row_of",
    "silent",
    "spec_of",
    "state_scales",
    "summarise",
    "user_keys_fn",
    "verdict_rows",
    "void_reason",
    "with_shots",
    "with_states",
]
