"""OpenRLHF: a Python file that is given prompt and response in one, and a row in `labels`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palate.trainers.export.plan import ExportPlan
from palate.trainers.export.prompts import PromptRow
from palate.trainers.export.targets import ExportTarget

IMAGE = "<image>"
"""OpenRLHF reads it as a place for a picture, in any text."""


def columns(row: PromptRow, number: int, plan: ExportPlan) -> Mapping[str, Any]:
    """Return a row of the data set; the label is all that reaches the reward beside the texts."""
    prompt = [
        {**message, "content": message["content"].replace(IMAGE, f"{IMAGE[0]}\u200b{IMAGE[1:]}")}
        for message in row.messages
    ]
    return {"prompt": prompt, "row": row.row}


TARGET = ExportTarget(
    name="openrlhf",
    title="OpenRLHF 0.11.2",
    data="jsonl",
    files=("reward.py", "start.sh", "README.md"),
    start="./start.sh",
    columns=columns,
    more="--train.num_episodes N",
    keeps_rest=True,
    needs_end_of_turn=True,
)
