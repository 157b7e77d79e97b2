"""`ray?workers=N`: units computed by actors of Ray, on this machine or a cluster.

Every worker builds the scorer once and computes one unit at a time. Its results come back while
it computes, and only this process writes. A worker that dies is replaced, its unit given again.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from palate.errors import EngineError, UsageError
from palate.execution.ray_runner.cluster import connect, free, one_line, require
from palate.execution.ray_runner.worker import Reply, ScorerIdentity, Worker, results_in, source_of
from palate.execution.runner import Batch, BatchResult, ScorerJob
from palate.specs import Spec

GROUPS_AT_MOST, UNITS_PER_WORKER = 256, 8
DEATHS_AT_MOST = 3


class RayRunner:
    """Runs units on Ray actors."""

    def __init__(self, spec: Spec) -> None:
        spec.refuse_reference()
        spec.only({"workers", "threads", "gpus", "wait", "address"})
        self.workers = spec.number("workers", 2, least=1)
        self.threads = spec.number("threads", 1, least=1)
        self.gpus = spec.number("gpus", 0)
        self.wait_s = spec.number("wait", 600, least=1)
        self.address = spec.options.get("address", os.environ.get("RAY_ADDRESS") or "local")
        if self.address.startswith("ray://"):
            raise UsageError(
                f"engine ray: address={self.address} is a Ray Client, which carries no streams; "
                "call palate on a machine of the cluster with address=auto"
            )

    def groups_per_batch(self, groups: int) -> int:
        """Few enough that the last units keep every worker busy."""
        each = -(-groups // (UNITS_PER_WORKER * self.workers))
        return max(1, min(GROUPS_AT_MOST, each))

    def run(self, task: ScorerJob, units: Iterable[Batch]) -> Iterator[BatchResult]:
        """Yield results as workers give them; raises `EngineError` where none come for too long."""
        units = iter(units)
        first = next(units, None)
        if first is None:  # all is known: no cluster is needed
            return
        ray = connect(self.address)
        require(ray, self.workers, self.threads, self.gpus)
        threads = {"OMP_NUM_THREADS": str(self.threads), "TOKENIZERS_PARALLELISM": "false"}
        actor = ray.remote(Worker).options(
            num_cpus=self.threads, num_gpus=self.gpus, runtime_env={"env_vars": threads}
        )
        session = task.session.for_workers
        planned = ScorerIdentity.of(task.computes, task.name)
        source = ray.put(source_of(ray, task))
        made = source, session, task.settings, task.component, sys.path, planned, task.name
        pool = _Pool(ray, lambda: actor.remote(*made), self.workers, self.wait_s)
        try:
            for job, reply in pool.replies(chain([first], units)):
                for position, result in results_in(task, reply):
                    if position in job.missing:  # else it came before the unit's first worker died
                        job.missing.remove(position)
                        yield BatchResult(job.unit, position, result)
        finally:
            pool.close()


@dataclass
class _Assignment:
    """What a worker does at a time: a unit, or nothing but to build the scorer."""

    unit: int = -1
    prepared: Any = ()
    missing: set[int] = field(default_factory=set)
    deaths: int = 0


class _Pool:
    """Workers with one job each, and the units that wait for them."""

    def __init__(self, ray: Any, hire: Callable[[], Any], size: int, wait_s: int) -> None:
        self._ray, self._hire, self._size, self._wait_s = ray, hire, size, wait_s
        self._waiting: deque[_Assignment] = deque()
        self._busy: dict[Any, tuple[Any, _Assignment]] = {}  # by the stream of a worker's replies

    def replies(self, units: Iterator[Batch]) -> Iterator[tuple[_Assignment, Reply]]:
        """Yield each reply with its job until no unit is left."""
        for _ in range(self._draw(units)):
            self._give(self._hire(), _Assignment())  # a unit goes only to a worker that is there
        while self._draw(units) or any(job.missing for _, job in self._busy.values()):
            ready, _ = self._ray.wait([*self._busy], timeout=self._wait_s)
            if not ready:
                raise EngineError(
                    f"engine ray: nothing came for {self._wait_s} s and no worker moves "
                    f"({free(self._ray)}); free what the cluster runs, or wait longer with ?wait="
                )
            try:
                reply = self._ray.get(next(ready[0]))
            except (StopIteration, self._ray.exceptions.RayError) as error:
                self._ended(*self._busy.pop(ready[0]), error)
            else:
                yield self._busy[ready[0]][1], reply

    def close(self) -> None:
        """Kill every worker."""
        for worker, _ in self._busy.values():
            self._ray.kill(worker)

    def _draw(self, units: Iterator[Batch]) -> int:
        # As many units as workers lie ready in Ray's store, so that no worker waits for texts.
        while len(self._waiting) < self._size and (unit := next(units, None)) is not None:
            positions = set(range(len(unit.prepared)))
            self._waiting.append(_Assignment(unit.number, self._ray.put(unit.prepared), positions))
        return len(self._waiting)

    def _give(self, worker: Any, job: _Assignment) -> None:
        self._busy[worker.work.remote(job.prepared)] = worker, job

    def _ended(self, worker: Any, job: _Assignment, error: Exception) -> None:
        if isinstance(error, StopIteration) and not job.missing:
            if self._waiting:
                self._give(worker, self._waiting.popleft())
                return
        else:
            job.deaths += 1
            if job.deaths > DEATHS_AT_MOST:
                killed = isinstance(error, self._ray.exceptions.ActorDiedError)
                plain = killed and not getattr(error, "actor_init_failed", False)
                why = "is there too little memory?" if plain else one_line(error)
                raise EngineError(
                    f"engine ray: {job.deaths} workers died at the same work ({why}); "
                    "what is finished is kept"
                )
            if job.missing:
                self._waiting.appendleft(job)
            if self._waiting:
                self._give(self._hire(), _Assignment(deaths=job.deaths))
        self._ray.kill(worker)  # a worker that Ray calls dead may live where it cannot be reached
