"""`ray?workers=N`: units scored by actors of Ray Data, on this machine or a cluster.

Every worker holds the contestant, built once from its spec; units go out, results come back as
they are ready, and only this process writes. Ray starts a worker that dies again, and its unit with
it; after more than three deaths a worker it is no accident and an error.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from palate.errors import EngineError
from palate.execution.over_ray.cluster import connect, share_of_cpus
from palate.execution.over_ray.parcels import open_reply, portable, unit_table
from palate.execution.over_ray.pulse import Pulse, end_workers, watched
from palate.execution.over_ray.stream import Stream
from palate.execution.over_ray.worker import Worker
from palate.execution.runner import Came, Task, Unit
from palate.specs import Spec

GROUPS_AT_MOST, UNITS_PER_WORKER = 256, 8
AHEAD_BYTES = 256 * 2**20
"""Texts put into Ray's object store at a time; workers load their models anew after each."""


class OverRay:
    """Runs units on Ray Data actors."""

    def __init__(self, spec: Spec) -> None:
        spec.refuse_reference()
        spec.only({"workers", "threads", "gpus", "wait", "address"})
        self.workers = spec.number("workers", 2, least=1)
        self.threads = spec.number("threads", 1, least=1)
        self.gpus = spec.number("gpus", 0)
        self.wait_s = spec.number("wait", 600, least=1)
        self.address = spec.options.get("address", "local")

    def groups_per_unit(self, groups: int) -> int:
        """Few enough that the last units keep every worker busy."""
        each = -(-groups // (UNITS_PER_WORKER * self.workers))
        return max(1, min(GROUPS_AT_MOST, each))

    def run(self, task: Task, units: Iterable[Unit]) -> Iterator[Came]:
        """Yield results as workers give them; raises `EngineError` where none come for too long."""
        units = iter(units)
        first = next(units, None)
        if first is None:  # all is known: no cluster is needed
            return
        made_from = portable(task)
        ray = connect(self.address)
        share = share_of_cpus(ray.cluster_resources(), self.workers, self.threads, self.gpus)
        rest: Iterator[Unit] = chain([first], units)
        while (unit := next(rest, None)) is not None:
            refs, sizes = [], {}
            rest = chain([unit], rest)
            ahead = 0
            for one in rest:
                text = pickle.dumps(one.slates)
                refs.append(ray.put(unit_table(one.number, text)))
                sizes[one.number] = len(one.slates)
                ahead += len(text)
                if ahead >= AHEAD_BYTES:
                    break
            yield from self._window(ray, task, made_from, share, refs, sizes)

    def _window(
        self,
        ray: Any,
        task: Task,
        made_from: str | bytes,
        share: float,
        refs: list[Any],
        sizes: dict[int, int],
    ) -> Iterator[Came]:
        pulse = ray.remote(num_cpus=0)(Pulse).remote()
        environment = {"OMP_NUM_THREADS": str(self.threads), "TOKENIZERS_PARALLELISM": "false"}
        n = min(self.workers, len(refs))

        def dataset() -> Any:
            return ray.data.from_arrow_refs(refs).map_batches(
                Worker,
                batch_size=1,
                batch_format="pyarrow",
                # One at a time: who is ready first would take a second unit and keep it waiting.
                compute=ray.data.ActorPoolStrategy(size=n, max_tasks_in_flight_per_actor=1),
                fn_constructor_args=(
                    made_from, pickle.dumps(task.settings), task.component, self.threads, sys.path,
                    pulse,
                ),
                num_cpus=share,
                num_gpus=self.gpus or None,
                runtime_env={"env_vars": environment},
            )  # fmt: skip

        stream = Stream(ray, dataset)
        try:
            for number, reply in watched(ray, stream, pulse, n, self.wait_s):
                if number not in sizes:
                    raise EngineError(f"engine ray: unit {number} came twice")
                for position, result in open_reply(task, reply, sizes.pop(number)):
                    yield Came(number, position, result)
            if sizes:
                raise EngineError(f"engine ray: {len(sizes)} units gave no result; run it again")
        except BaseException:
            end_workers(ray, pulse)
            raise
        finally:
            stream.stop()
            ray.kill(pulse)
