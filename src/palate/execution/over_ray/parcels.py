"""What travels between this process and a worker, and how a reply is opened."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from palate import errors
from palate.errors import EngineError, PalateError, UsageError
from palate.execution.over_ray.cluster import one_line
from palate.execution.runner import Task


def portable(task: Task) -> str | bytes:
    """Return what a worker builds the contestant from: its spec, or the object pickled."""
    if task.spec is not None:
        return task.spec
    try:
        from ray import cloudpickle
    except ImportError:
        cloudpickle = pickle
    try:
        made: bytes = cloudpickle.dumps(task.contestant)
    except Exception as error:  # pickling runs the object's own code
        raise UsageError(
            f"{task.name}: cannot be sent to workers ({one_line(error)}); register it under "
            "palate.scorers and name it by its spec, or use engine here"
        ) from error
    return made


def unit_table(number: int, text: bytes) -> Any:
    """Return one unit as the row of a table."""
    import pyarrow as pa

    return pa.table({"unit": [number], "slates": pa.array([text], pa.large_binary())})


def open_reply(task: Task, reply: bytes, expected: int) -> Iterator[tuple[int, Any]]:
    """Yield (position, result) of one unit; raises what the contestant raised."""
    kind, content = pickle.loads(reply)
    if kind != "results":
        if kind == "broken":
            raise EngineError(f"{task.name}: {content}")
        raise getattr(errors, kind, PalateError)(content)
    if sorted(position for position, _ in content) != list(range(expected)):
        raise EngineError("engine ray: a unit came back incomplete; run it again")
    yield from content
