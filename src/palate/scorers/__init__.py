"""Scorers, one file each."""

from palate.scorers.baselines import is_baseline
from palate.scorers.controls import (
    ScorerInContext,
    draws_of,
    scorers_with_state,
    state_of,
    with_state,
)
from palate.scorers.from_spec import GROUP, build_scorer
from palate.scorers.state_options import State

__all__ = [
    "GROUP",
    "ScorerInContext",
    "State",
    "build_scorer",
    "draws_of",
    "is_baseline",
    "scorers_with_state",
    "state_of",
    "with_state",
]
