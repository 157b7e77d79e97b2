"""`ray?workers=N`: units scored by actors of Ray Data, on this machine or a cluster.

Every worker holds the contestant, built once from its spec; units go out, results come back as
they are ready, and only this process writes. Ray starts a worker that dies again, and its unit with
it; after more than three deaths a worker it is no accident and an error.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from palate import errors
from palate.errors import EngineError, PalateError, UsageError
from palate.execution.runner import Came, Task, Unit
from palate.execution.worker import Pulse, Worker
from palate.specs import Spec

ADDRESSES = "auto, local, ray://HOST:10001 or HOST:6379"
WORKS_AT_MOST, UNITS_PER_WORKER = 256, 8
AHEAD_BYTES = 256 * 2**20
"""Texts put into Ray's object store at a time; workers load their models anew after each."""
DEATHS_PER_WORKER = 3
LOOK_EVERY_S = 1.0


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

    def works_per_unit(self, works: int) -> int:
        """Few enough that the last units keep every worker busy."""
        each = -(-works // (UNITS_PER_WORKER * self.workers))
        return max(1, min(WORKS_AT_MOST, each))

    def run(self, task: Task, units: Iterable[Unit]) -> Iterator[Came]:
        """Yield results as workers give them; raises `EngineError` where none come for too long."""
        units = iter(units)
        first = next(units, None)
        if first is None:  # all is known: no cluster is needed
            return
        made_from = _portable(task)
        ray = _connected(self.address)
        share = self._share(ray.cluster_resources())
        rest: Iterator[Unit] = chain([first], units)
        while (unit := next(rest, None)) is not None:
            refs, sizes = [], {}
            rest = chain([unit], rest)
            ahead = 0
            for one in rest:
                text = pickle.dumps(one.slates)
                refs.append(ray.put(_table(one.number, text)))
                sizes[one.number] = len(one.slates)
                ahead += len(text)
                if ahead >= AHEAD_BYTES:
                    break
            yield from self._window(ray, task, made_from, share, refs, sizes)

    def _share(self, there: dict[str, float]) -> float:
        # One CPU is left for what reads and moves data: actors that hold every CPU would wait for
        # it for ever. What an actor holds is bookkeeping; how many threads it runs is set apart.
        cpus, gpus = there.get("CPU", 0.0), there.get("GPU", 0.0)
        if self.workers * self.threads > cpus:
            raise UsageError(
                f"engine ray: {self.workers} workers of {self.threads} threads need "
                f"{self.workers * self.threads} CPUs and the cluster has {cpus:g}; ask for fewer"
            )
        if self.workers * self.gpus > gpus:
            raise UsageError(
                f"engine ray: {self.workers} workers of {self.gpus} GPUs need "
                f"{self.workers * self.gpus} and the cluster has {gpus:g}; ask for fewer"
            )
        free = max(cpus - 1, cpus / 2)
        return float(int(10_000 * min(self.threads, free / self.workers)) / 10_000)

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
                    made_from, pickle.dumps(task.settings), task.term, self.threads, sys.path,
                    pulse,
                ),
                num_cpus=share,
                num_gpus=self.gpus or None,
                runtime_env={"env_vars": environment},
            )  # fmt: skip

        stream = _Stream(ray, dataset)
        try:
            for number, reply in self._watched(ray, stream, pulse, n):
                if number not in sizes:
                    raise EngineError(f"engine ray: unit {number} came twice")
                for position, result in _read(task, reply, sizes.pop(number)):
                    yield Came(number, position, result)
            if sizes:
                raise EngineError(f"engine ray: {len(sizes)} units gave no result; run it again")
        except BaseException:
            _end(ray, pulse)
            raise
        finally:
            stream.stop()
            ray.kill(pulse)

    def _watched(
        self, ray: Any, stream: _Stream, pulse: Any, workers: int
    ) -> Iterator[tuple[int, bytes]]:
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
            if looked - quiet_since > self.wait_s:
                raise EngineError(
                    f"engine ray: nothing came for {self.wait_s} s and no worker moves "
                    f"({_free(ray)}); free what the cluster runs, or wait longer with ?wait="
                )


class _Stream:
    """A dataset's results, drawn by a thread so that waiting for them can end."""

    def __init__(self, ray: Any, dataset: Any) -> None:
        self._queue: queue.Queue[tuple[int, bytes] | BaseException | None] = queue.Queue(64)
        self._stopped = threading.Event()
        self._ray, self._make = ray, dataset
        self._dataset: Any = None
        self._thread = threading.Thread(target=self._draw, daemon=True, name="palate-ray")
        self._thread.start()

    def next(self, timeout: float) -> tuple[int, bytes] | None:
        """Return what came, None at the end; raises `queue.Empty` or the `EngineError`."""
        came = self._queue.get(timeout=timeout)
        if isinstance(came, BaseException):
            raise EngineError(f"engine ray: {_one_line(came)}") from came
        return came

    def stop(self) -> None:
        """End the dataset's work; nothing more is drawn."""
        self._stopped.set()
        executor = getattr(self._dataset, "_current_executor", None)
        if executor is not None:
            executor.shutdown(force=True)

    def _draw(self) -> None:
        with _quiet(self._ray):
            try:
                self._dataset = self._make()
                batches = self._dataset.iter_batches(
                    batch_size=None, batch_format="pyarrow", prefetch_batches=0
                )
                for table in batches:
                    for row in table.to_pylist():
                        self._put((row["unit"], row["reply"]))
                    if self._stopped.is_set():
                        return
                self._put(None)
            except BaseException as error:
                self._put(error)

    def _put(self, item: tuple[int, bytes] | BaseException | None) -> None:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=LOOK_EVERY_S)
                return
            except queue.Full:
                continue


@contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    # Ray's bars and notices would run into palate's own; set back after.
    context = ray.data.DataContext.get_current()
    names = ("enable_progress_bars", "enable_operator_progress_bars", "print_on_execution_start")
    before = {name: getattr(context, name) for name in names}
    log = logging.getLogger("ray.data")
    levels = {handler: handler.level for handler in log.handlers}
    try:
        for name in names:
            setattr(context, name, False)
        for handler in log.handlers:
            if not isinstance(handler, logging.FileHandler):
                handler.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
        for handler, level in levels.items():
            handler.setLevel(level)


def _connected(address: str) -> Any:
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise UsageError(
            f"engine ray needs Ray ({error.name} is missing): pip install 'palate[ray]'"
        ) from error
    if ray.is_initialized():
        return ray
    where: dict[str, Any] = {"address": address}
    if address == "local":
        where |= {"include_dashboard": False}
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its notices go to our stderr
    try:
        ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError, OSError, TimeoutError) as error:
        raise EngineError(
            f"engine ray: no cluster at address={address} ({_one_line(error)}); "
            f"expected {ADDRESSES}"
        ) from error
    return ray


def _portable(task: Task) -> str | bytes:
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
            f"{task.name}: cannot be sent to workers ({_one_line(error)}); register it under "
            "palate.scorers and name it by its spec, or use engine here"
        ) from error
    return made


def _read(task: Task, reply: bytes, expected: int) -> Iterator[tuple[int, Any]]:
    kind, content = pickle.loads(reply)
    if kind != "results":
        if kind == "broken":
            raise EngineError(f"{task.name}: {content}")
        raise getattr(errors, kind, PalateError)(content)
    if sorted(position for position, _ in content) != list(range(expected)):
        raise EngineError("engine ray: a unit came back incomplete; run it again")
    yield from content


def _table(number: int, text: bytes) -> Any:
    import pyarrow as pa

    return pa.table({"unit": [number], "slates": pa.array([text], pa.large_binary())})


def _end(ray: Any, pulse: Any) -> None:
    # A dataset that has given nothing yet cannot be stopped, only its workers can.
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


def _free(ray: Any) -> str:
    there, free = ray.cluster_resources(), ray.available_resources()
    return f"{free.get('CPU', 0):g} of {there.get('CPU', 0):g} CPUs are free"


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[-1] if lines and lines[0].startswith(("ray::", "Traceback")) else " ".join(lines)
    return f"{type(error).__name__}: {said[:300]}"
