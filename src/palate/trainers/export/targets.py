"""Trainers that an export is for: their files, and the columns of their data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from palate.trainers.export.plan import ExportPlan
from palate.trainers.export.prompts import PromptRow

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
