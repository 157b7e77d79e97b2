"""Requests in groups, such as those of one slate: what came of a group is given at once."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import count
from typing import Any, TypeVar

from palate.engines.http.client import HttpClient
from palate.engines.http.request import HttpOutcome, HttpRequest

T = TypeVar("T")


def ask_groups(
    client: HttpClient, groups: Iterable[Sequence[HttpRequest[T] | HttpOutcome[T]]]
) -> Generator[tuple[int, list[HttpOutcome[T]]]]:
    """Yield (group, outcomes in its order) as the groups become whole; an outcome is not sent."""
    places: dict[int, tuple[int, int]] = {}
    parts: dict[int, list[Any]] = {}

    def requests() -> Iterator[HttpRequest[T]]:
        position = count()
        for k, group in enumerate(groups):
            parts[k] = [it if isinstance(it, HttpOutcome) else None for it in group]
            for j, it in enumerate(group):
                if isinstance(it, HttpRequest):
                    places[next(position)] = k, j
                    yield it

    with closing(client.ask(requests())) as outcomes:
        for position, outcome in outcomes:
            k, j = places.pop(position)
            parts[k][j] = outcome
            if None not in parts[k]:
                yield k, parts.pop(k)
    yield from parts.items()  # groups of which nothing was sent
