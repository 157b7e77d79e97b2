"""Requests in groups, such as those of one slate: what came of a group is given at once."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import count
from typing import TypeVar

from palate.engines.http.client import HttpClient
from palate.engines.http.request import HttpOutcome, HttpRequest

T = TypeVar("T")


def ask_groups(
    client: HttpClient, groups: Iterable[Sequence[HttpRequest[T] | HttpOutcome[T]]]
) -> Generator[tuple[int, list[HttpOutcome[T]]]]:
    """Yield (group, outcomes in its order) as the groups become whole; an outcome is not sent."""
    places: dict[int, tuple[int, int]] = {}
    parts: dict[int, list[HttpOutcome[T] | None]] = {}
    whole: list[int] = []

    def requests() -> Iterator[HttpRequest[T]]:
        position = count()
        for k, group in enumerate(groups):
            parts[k] = [it if isinstance(it, HttpOutcome) else None for it in group]
            whole.extend([] if None in parts[k] else [k])
            for j, it in enumerate(group):
                if isinstance(it, HttpRequest):
                    places[next(position)] = k, j
                    yield it

    def ready() -> Iterator[tuple[int, list[HttpOutcome[T]]]]:
        while whole:
            k = whole.pop()
            yield k, [outcome for outcome in parts.pop(k) if outcome is not None]

    with closing(client.ask(requests())) as outcomes:
        for position, outcome in outcomes:
            k, j = places.pop(position)
            parts[k][j] = outcome
            whole.extend([] if None in parts[k] else [k])
            yield from ready()
    yield from ready()  # groups of which nothing was sent
