"""Evaluate a scorer: rows → slates → scores → verdicts → a run."""

from palate.contexts.rows import (
    ContextRow,
    ContextRows,
    LiveUsers,
    make_rows,
    no_user_keys,
    own_user_keys,
)
from palate.evaluation.evaluate import (
    JOURNAL,
    LEAST_ROWS,
    USUAL,
    FirstRun,
    RecomputeOptions,
    evaluated,
    recomputed,
    run_or_shard,
    sampled,
    score_undecided,
    summary_of,
    with_rows,
)
from palate.evaluation.job import (
    BoundScorer,
    combined,
    judgements,
    need_replies,
    not_applicable,
    refuse,
    unscored_reason,
)
from palate.evaluation.states import (
    COMMON_PAIRS,
    HasStates,
    adapt_to,
    history_of,
    need_choices,
    root_margins,
    state_scales,
    user_keys_fn,
    with_shots,
    with_states,
)
from palate.evaluation.summary import concordance, row_of, summarise, verdict_rows
from palate.evaluation.work import Computation, Contexts, Raters, Work, WorkOptions, called
from palate.records import Progress
from palate.scorers import Rater, spec_of
from palate.session import Start
