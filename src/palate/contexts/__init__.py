"""Which part of the user a scorer is shown, one file each."""

from palate.contexts.build import GROUP, build_context
from palate.contexts.plan import PlanContext

__all__ = ["GROUP", "PlanContext", "build_context"]
