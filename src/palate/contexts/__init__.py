"""Which part of the user a scorer is shown."""

from palate.contexts.controls import (
    GROUP,
    NOTHING,
    build_context,
    context_spec,
    equal_but_draws,
    of_stranger,
    of_user,
    one_spelling,
    pool_of,
    read_owner,
    refuse_other_draws,
    same_of,
    shows,
    strangers_of,
    usual_name,
    with_controls,
    with_costs,
)
from palate.contexts.generated import PlanContext, Writer, build_writer
from palate.contexts.kinds import kinds_of, need_same
