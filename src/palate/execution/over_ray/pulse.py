"""Signs of life: workers give them, and this process ends the wait where none come."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from typing import Any

from palate.errors import EngineError
from palate.execution.over_ray.cluster import free
from palate.execution.over_ray.stream import Stream

LOOK_EVERY_S = 1.0
DEATHS_PER_WORKER = 3


class Pulse:
    """Knows the workers that started, and counts signs of life of all of them."""

    def __init__(self) -> None:
        self._starts = self._beats = 0
        self._workers: dict[str, Any] = {}

    def start(self, name: str, worker: Any) -> None:
        """Note that a worker began, anew or for the first time."""
        self._starts += 1
        self._workers[name] = worker

    def workers(self) -> list[Any]:
        """Return the handles of all that ever started."""
        return list(self._workers.values())

    def beat(self) -> None:
        """Note a sign of life."""
        self._beats += 1

    def counts(self) -> tuple[int, int]:
        """Return how many starts and how many signs of life there were."""
        return self._starts, self._beats


def watched(
    ray: Any, stream: Stream, pulse: Any, workers: int, wait_s: float
) -> Iterator[tuple[int, bytes]]:
    """Yield (unit, reply) as they come; raises `EngineError` where workers stay still or die."""
    quiet_since = looked = time.monotonic()
    seen = (0, 0)
    while True:
        try:
            came = stream.next(LOOK_EVERY_S)
        except queue.Empty:
            pass
        else:
            if came is None:
                return
            quiet_since = time.monotonic()
            yield came
        if time.monotonic() - looked < LOOK_EVERY_S:
            continue
        looked = time.monotonic()
        now = _counts(ray, pulse, seen)
        if now[0] > workers * (1 + DEATHS_PER_WORKER):
            raise EngineError(
                f"engine ray: {workers} workers were started {now[0]} times, as often as they "
                "died; is there too little memory? What is finished is kept"
            )
        if now != seen:
            quiet_since, seen = looked, now
        if looked - quiet_since > wait_s:
            raise EngineError(
                f"engine ray: nothing came for {wait_s} s and no worker moves "
                f"({free(ray)}); free what the cluster runs, or wait longer with ?wait="
            )


def end_workers(ray: Any, pulse: Any) -> None:
    """Kill every worker that started: a dataset that has given nothing yet cannot be stopped."""
    try:
        workers = ray.get(pulse.workers.remote(), timeout=10 * LOOK_EVERY_S)
    except Exception:  # a cluster that is gone has no workers either
        return
    for worker in workers:
        ray.kill(worker)


def _counts(ray: Any, pulse: Any, before: tuple[int, int]) -> tuple[int, int]:
    try:
        starts, beats = ray.get(pulse.counts.remote(), timeout=LOOK_EVERY_S)
    except Exception:  # not there yet, or gone: no sign of life either way
        return before
    return int(starts), int(beats)
