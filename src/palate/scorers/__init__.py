"""Scorers, one file a family."""

from palate.scorers.baselines import is_baseline
from palate.scorers.from_spec import (
    GROUP,
    Rater,
    ScorerInContext,
    build_scorer,
    draws_of,
    scorers_with_state,
    spec_of,
    state_of,
    with_state,
)
from palate.scorers.mix import Mix
from palate.scorers.panel import Company
from palate.scorers.state_options import State
