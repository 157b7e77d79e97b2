"""The log of a run: lines of JSON, and TensorBoard where it is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from palate.errors import UsageError, writing
from palate.files import write_whole

FILE, EVENTS = "log.jsonl", "tensorboard"


class TrainingLog:
    """A line for each update and each look at held-out users.

    A line is `{"update": …, "train": {…}}` or `{"update": …, "held_out": {…}}`. Rewards
    of both are in the unit that is trained on. Where a run goes on
    from a checkpoint, the lines of later updates go: they are written again.

    Raises `UsageError` for TensorBoard that is not installed.
    """

    def __init__(self, folder: Path, *, tensorboard: bool = False) -> None:
        self.path, self._writer = folder / FILE, None
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise UsageError("--tensorboard needs pip install tensorboard") from error
            self._writer = SummaryWriter(str(folder / EVENTS))

    def cut_back(self, update: int) -> None:
        """Take out what was logged after so many updates."""
        if self.path.is_file():
            lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
            with writing(self.path):
                write_whole(self.path, [line for line in lines if _update_of(line) <= update])

    def write(self, update: int, part: str, values: Mapping[str, Any]) -> None:
        """Append one line; raises `ResourceError` where the disk refuses."""
        line = json.dumps({"update": update, part: dict(values)}, ensure_ascii=False)
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        if self._writer is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._writer.add_scalar(f"{part}/{name}", float(value), update)
            self._writer.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()


def _update_of(line: str) -> float:
    try:
        return int(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):  # cut short by a kill
        return float("inf")
