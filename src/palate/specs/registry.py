"""Kinds by name: entry points of palate and of any installed package."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from palate.errors import SpecError


def registered(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group (`palate.scorers`, `palate.contexts`, …) by name.

    Two packages that claim one name are an error, not a race.
    """
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
