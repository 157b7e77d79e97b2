"""What a shell offers when a value is completed: the kinds that are installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points


def names(group: str) -> list[str]:
    """Return the names in an entry-point group; `palate.specs` says what they stand for."""
    return sorted({point.name for point in entry_points(group=group)})


def names_in(group: str) -> Callable[[str], list[str]]:
    """Return what completes a value by the names in an entry-point group.

    >>> names_in("palate.benchmarks")("tas")
    ['tasting']
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names(group) if name.startswith(incomplete)]

    return complete
