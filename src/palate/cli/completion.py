"""What a shell offers when a value is completed: the kinds that are installed."""

from __future__ import annotations

from collections.abc import Callable

from palate.specs import registered


def names_in(group: str) -> Callable[[str], list[str]]:
    """Return what completes a value by the names in an entry-point group.

    >>> names_in("palate.benchmarks")("tas")
    ['tasting']
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in registered(group) if name.startswith(incomplete)]

    return complete
