"""Trainers that an export is for: their files, and the columns of their data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from palate.runs.manifest import slug
from palate.trainers.export.plan import ExportPlan
from palate.trainers.export.prompts import PromptRow

IMAGE = "<image>"
"""OpenRLHF reads it as a place for a picture, in any text."""
Columns = Callable[[PromptRow, int, ExportPlan], Mapping[str, Any]]


class ExportTarget(NamedTuple):
    """A trainer, in the release that its files were tested with."""

    name: str
    title: str
    data: Literal["jsonl", "parquet"]
    files: tuple[str, ...]
    """Beside the data; each has a template."""
    start: str
    """The command that starts training, in the folder."""
    columns: Columns
    """Of a row by itself, its number and the plan."""
    more: str | None = None
    """How one trains for longer; None where the trainer itself says how many updates it makes."""
    keeps_rest: bool = False
    """Whether rows that fill no whole update are one more."""
    needs_end_of_turn: bool = False
    """Whether the server is sent responses with their special tokens."""


def trl_columns(row: PromptRow, number: int, plan: ExportPlan) -> Mapping[str, Any]:
    """Return a row of the data set; every column but `prompt` reaches the reward as a list."""
    return {"prompt": row.messages, "row": row.row}


def verl_columns(row: PromptRow, number: int, plan: ExportPlan) -> Mapping[str, Any]:
    """Return a row of the data set; `ground_truth` must be there, though nothing here reads it."""
    return {
        "data_source": f"palate-{slug(plan.benchmark)}",
        "prompt": row.messages,
        "reward_model": {"style": "model", "ground_truth": row.row},
        "extra_info": {"row": row.row, "user": row.user, "index": number},
    }


def openrlhf_columns(row: PromptRow, number: int, plan: ExportPlan) -> Mapping[str, Any]:
    """Return a row of the data set; the label is all that reaches the reward beside the texts."""
    prompt = [
        {**message, "content": message["content"].replace(IMAGE, f"{IMAGE[0]}\u200b{IMAGE[1:]}")}
        for message in row.messages
    ]
    return {"prompt": prompt, "row": row.row}


TRL = ExportTarget(
    name="trl",
    title="TRL 1.16",
    data="jsonl",
    files=("reward.py", "train.py", "README.md"),
    start="python train.py",
    columns=trl_columns,
)
"""A Python function over batches, for its RLOO and GRPO trainers."""
VERL = ExportTarget(
    name="verl",
    title="verl 0.9.1",
    data="parquet",
    files=("reward.py", "overrides.txt", "start.sh", "README.md"),
    start="./start.sh",
    columns=verl_columns,
    more="trainer.total_epochs=N",
)
"""A Python file that is asked for one answer at a time, and a list of Hydra overrides."""
OPENRLHF = ExportTarget(
    name="openrlhf",
    title="OpenRLHF 0.11.2",
    data="jsonl",
    files=("reward.py", "start.sh", "README.md"),
    start="./start.sh",
    columns=openrlhf_columns,
    more="--train.num_episodes N",
    keeps_rest=True,
    needs_end_of_turn=True,
)
"""A Python file that is given prompt and response in one, and a row in `labels`."""
TARGETS = {target.name: target for target in (TRL, VERL, OPENRLHF)}
