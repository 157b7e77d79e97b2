"""TRL: a Python function over batches, for its RLOO and GRPO trainers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palate.trainers.export.plan import ExportPlan
from palate.trainers.export.prompts import PromptRow
from palate.trainers.export.targets import ExportTarget


def columns(row: PromptRow, number: int, plan: ExportPlan) -> Mapping[str, Any]:
    """Return a row of the data set; every column but `prompt` reaches the reward as a list."""
    return {"prompt": row.messages, "row": row.row}


TARGET = ExportTarget(
    name="trl",
    title="TRL 1.16",
    data="jsonl",
    files=("reward.py", "train.py", "README.md"),
    start="python train.py",
    columns=columns,
)
