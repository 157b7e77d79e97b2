"""Execution: what is to be computed, what is known of it, and where the rest is computed."""

from palate.execution.execute import SHARDS, Pass, Shard
from palate.execution.plan import GROUPS_PER_BATCH, WorkPlan, WorkPlanner
from palate.execution.results import ResultIndex, Results
from palate.execution.runner import ScorerJob, build_runner
