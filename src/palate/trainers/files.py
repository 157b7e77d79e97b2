"""Files of a training run in its folder, beside the result."""

from __future__ import annotations

import json
from pathlib import Path

from palate.errors import RunError
from palate.rewards import Scale

CHECKPOINTS, POLICY, SCALE = "checkpoints", "policy", "scale.json"


def read_scale(folder: Path) -> Scale | None:
    """Return the scale that a run began with; None where it has not begun."""
    path = folder / SCALE
    if not path.is_file():
        return None
    try:
        return Scale.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read; remove the folder and run ppo again") from error
