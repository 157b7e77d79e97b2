"""Kinds by name: entry points of palate and of any installed package."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from palate.errors import SpecError


def registered(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group (`palate.scorers`, `palate.contexts`, …) by name.

    Two packages that claim one name are an error, not a race.
    """
    return dict(_registered(group, _installed()))


def _installed() -> tuple[tuple[str, int], ...]:
    """Return the folders that packages are imported from, and when each changed."""
    changed = []
    for folder in sys.path:
        with suppress(OSError):
            changed.append((folder, os.stat(folder or ".").st_mtime_ns))  # noqa: PTH116
    return tuple(changed)


@lru_cache(maxsize=64)
def _registered(group: str, installed: tuple[tuple[str, int], ...]) -> dict[str, EntryPoint]:
    """Return the same, read anew where a package came or went: reading all takes 7 ms."""
    del installed
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        other = points.get(point.name)
        if other is not None and other.value != point.value:
            raise SpecError(
                f"{group}: {point.name!r} is claimed by {other.value} and {point.value}"
            )
        points[point.name] = point
    return dict(sorted(points.items()))


def load(group: str, kind: str) -> Any:
    """Load what is registered under this name; raises `SpecError` naming the near misses."""
    points = registered(group)
    if kind not in points:
        near = get_close_matches(kind, points)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(points)}"
        raise SpecError(f"unknown {_singular(group)} {kind!r}; {hint}")
    try:
        return points[kind].load()
    except (ImportError, AttributeError) as error:
        raise SpecError(
            f"{group}: {kind!r} ({points[kind].value}) cannot be loaded: {error}"
        ) from error


def _singular(group: str) -> str:
    noun = group.removeprefix("palate.")
    return noun[:-3] + "y" if noun.endswith("ies") else noun.rstrip("s")
