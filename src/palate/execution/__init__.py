"""Execution: what is to be computed, what is known of it, and where the rest is computed."""

from palate.execution.execute import Pass
from palate.execution.plan import RowSource, WorkPlan, WorkPlanner, make_plan
from palate.execution.result_index import ResultIndex
from palate.execution.results import Results
from palate.execution.runner import Batch, BatchResult, Job, Runner, build_runner, compute

__all__ = [
    "Batch",
    "BatchResult",
    "Job",
    "Pass",
    "ResultIndex",
    "Results",
    "RowSource",
    "Runner",
    "WorkPlan",
    "WorkPlanner",
    "build_runner",
    "compute",
    "make_plan",
]
