"""Which part of the user a scorer is shown, one file each."""

from palate.contexts.controls import (
    NOTHING,
    of_stranger,
    refuse_other_draws,
    shows,
    strangers_of,
    usual_name,
    with_controls,
)
from palate.contexts.from_spec import GROUP, build_context
from palate.contexts.plan import PlanContext

__all__ = [
    "GROUP",
    "NOTHING",
    "PlanContext",
    "build_context",
    "of_stranger",
    "refuse_other_draws",
    "shows",
    "strangers_of",
    "usual_name",
    "with_controls",
]
