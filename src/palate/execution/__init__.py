"""Execution: what is to be computed, what is known of it, and where the rest is computed."""

from palate.execution.execute import Pass
from palate.execution.plan import GROUPS_PER_BATCH, RowSource, WorkPlan, WorkPlanner
from palate.execution.result_index import ResultIndex
from palate.execution.results import Results
from palate.execution.runner import Runner, ScorerJob, build_runner
from palate.execution.shard import SHARDS, Shard

__all__ = [
    "GROUPS_PER_BATCH",
    "SHARDS",
    "Pass",
    "ResultIndex",
    "Results",
    "RowSource",
    "Runner",
    "ScorerJob",
    "Shard",
    "WorkPlan",
    "WorkPlanner",
    "build_runner",
]
