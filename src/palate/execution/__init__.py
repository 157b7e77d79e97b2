"""Execution: what is to be computed, what is known of it, and where the rest is computed."""

from palate.execution.execute import Pass
from palate.execution.plan import Planner, RowSource, WorkPlan, make_plan
from palate.execution.result_index import ResultIndex
from palate.execution.results import Results
from palate.execution.runner import Came, Runner, Task, Unit, build_runner, compute

__all__ = [
    "Came",
    "Pass",
    "Planner",
    "ResultIndex",
    "Results",
    "RowSource",
    "Runner",
    "Task",
    "Unit",
    "WorkPlan",
    "build_runner",
    "compute",
    "make_plan",
]
