"""Execution: what is to be computed, what is known of it, and where the rest is computed."""

from palate.execution.execute import Pass
from palate.execution.known import Known
from palate.execution.plan import Plan, Planner, Source, make_plan
from palate.execution.results import Result, Results
from palate.execution.runner import Came, Runner, Task, Unit, build_runner, compute

__all__ = [
    "Came",
    "Known",
    "Pass",
    "Plan",
    "Planner",
    "Result",
    "Results",
    "Runner",
    "Source",
    "Task",
    "Unit",
    "build_runner",
    "compute",
    "make_plan",
]
