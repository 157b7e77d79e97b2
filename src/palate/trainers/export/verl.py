"""verl: a Python file that is asked for one answer at a time, and a list of Hydra overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palate.runs.manifest import slug
from palate.trainers.export.plan import ExportPlan
from palate.trainers.export.prompts import PromptRow
from palate.trainers.export.targets import ExportTarget


def columns(row: PromptRow, number: int, plan: ExportPlan) -> Mapping[str, Any]:
    """Return a row of the data set; `ground_truth` must be there, though nothing here reads it."""
    return {
        "data_source": f"palate-{slug(plan.benchmark)}",
        "prompt": row.messages,
        "reward_model": {"style": "model", "ground_truth": row.row},
        "extra_info": {"row": row.row, "user": row.user, "index": number},
    }


TARGET = ExportTarget(
    name="verl",
    title="verl 0.9.1",
    data="parquet",
    files=("reward.py", "overrides.txt", "start.sh", "README.md"),
    start="./start.sh",
    columns=columns,
    more="trainer.total_epochs=N",
)
