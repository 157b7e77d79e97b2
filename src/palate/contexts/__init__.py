"""Which part of the user a scorer is shown."""

from palate.contexts.controls import (
    GROUP,
    NOTHING,
    build_context,
    context_spec,
    of_stranger,
    of_user,
    one_spelling,
    refuse_other_draws,
    shows,
    strangers_of,
    usual_name,
    with_controls,
    with_costs,
)
from palate.contexts.generated import PlanContext, Writer, build_writer
