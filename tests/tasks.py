"""Training tasks as tests write them: rows, base, folder, and the options by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from palate.learning import BaseTask
from palate.records import PreferencePair, Settings
from palate.specs import Reference

SETTINGS = ("seed", "dtype", "device")


def task(
    pairs: Sequence[PreferencePair], base: Reference, output: Path, leave_out: Any = (), **told: Any
) -> BaseTask:
    """Return a task; what is no option of the method is what all methods are told."""
    how = {name: told.pop(name) for name in SETTINGS if name in told}
    settings, progress = told.pop("settings", Settings(**how)), told.pop("progress", None)
    return BaseTask(pairs, base, output, leave_out, told, settings, progress)
