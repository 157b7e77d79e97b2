"""`ray?workers=N`: units computed by actors of Ray, on this machine or a cluster.

Every worker builds the scorer once and computes one unit at a time. Its results come back while
it computes, and only this process writes. A worker that dies is replaced, its unit given again.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import time
from collections import ChainMap, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import BytesIO
from itertools import chain
from typing import Any, NamedTuple

from palate import errors
from palate.errors import EngineError, LoadError, ModelError, PalateError, UsageError
from palate.execution.runner import Batch, BatchResult, ScorerJob, compute
from palate.models import choose_device, choose_dtype
from palate.records import Judge, Prepared, Scorer, Settings, components_of, info_of
from palate.runs import versions
from palate.scorers import build_scorer
from palate.session import Session, use
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
                resources = self._ray.available_resources(), self._ray.cluster_resources()
                free, all_ = (of_kind.get("CPU", 0) for of_kind in resources)
                raise EngineError(
                    f"engine ray: nothing came for {self._wait_s} s and no worker moves "
                    f"({free:g} of {all_:g} CPUs are free); free what the cluster runs, or wait "
                    "longer with ?wait="
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


REPLY_EVERY_S = 1.0
RESULTS, BROKEN = "results", "broken"
Reply = tuple[str, Any]
"""(`RESULTS`, [(position, result), ...]), or an error's kind and its message."""


class ScorerIdentity(NamedTuple):
    """What a scorer is, and what it is made of where that is declared."""

    fingerprint: str
    details: Mapping[str, Any]
    versions: Mapping[str, str]

    @classmethod
    def of(cls, scorer: Scorer | Judge, name: str) -> ScorerIdentity:
        """Return a scorer's on this machine."""
        info = info_of(scorer, name)
        return cls(info.fingerprint, info.details, versions())

    def differences(self, other: ScorerIdentity) -> str:
        """Say what another one has instead; empty where it is the same."""
        if self.fingerprint == other.fingerprint:
            return ""
        for ours, theirs in ((self.details, other.details), (self.versions, other.versions)):
            pairs = [dict(_flat(each)) for each in (ours, theirs)]
            names = sorted(name for name in {**pairs[0], **pairs[1]} if name != "reference")
            differ = [
                f"{name} {pairs[1].get(name, 'none')} for {pairs[0].get(name, 'none')}"
                for name in names
                if pairs[0].get(name) != pairs[1].get(name)
            ]
            if differ:
                return ", ".join(differ)
        return f"fingerprint {other.fingerprint[:8]} for {self.fingerprint[:8]}"


@dataclass
class Worker:
    """Scores units of one component of a scorer, which it builds once."""

    source: str | bytes
    session: Mapping[str, Any]
    settings: Settings
    component: int
    paths: list[str]
    planned: ScorerIdentity
    name: str
    _scorer: Any = None

    def __post_init__(self) -> None:
        # A scorer's own module may lie beside the script that named it.
        sys.path += [path for path in self.paths if path not in sys.path]

    def work(self, prepared: tuple[Prepared, ...]) -> Iterator[Reply]:
        """Yield results about once a second; without any the scorer is only built."""
        try:
            if self._scorer is None:
                yield RESULTS, []  # it lives; loading may take as long again
                self._scorer = self._build()
            results, since = [], time.monotonic()
            for result in compute(self._scorer, prepared) if prepared else ():
                results.append(result)
                if time.monotonic() - since >= REPLY_EVERY_S:
                    yield RESULTS, results
                    results, since = [], time.monotonic()
            yield RESULTS, results
        except PalateError as error:
            yield type(error).__name__, str(error)
        except Exception as error:
            yield BROKEN, f"{type(error).__name__}: {' '.join(str(error).split())}"

    def _build(self) -> Any:
        source, session = self.source, use(Session(**self.session))
        try:
            if isinstance(source, bytes):
                whole = pickle.loads(source)
            else:
                whole = build_scorer(source, session, self.settings)
        except ModelError as error:  # which is there where the work is planned
            raise LoadError(str(error)) from error
        scorer = components_of(whole)[self.component].scorer
        # A machine that chooses another device or dtype by itself gives other numbers.
        if differ := self.planned.differences(ScorerIdentity.of(scorer, self.name)):
            raise EngineError(
                f"{self.name}: a worker would compute something else than what is planned here "
                f"({differ}); give --device and --dtype, and the same files and versions everywhere"
            )
        return scorer


def _flat(details: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in details.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name} ")
        else:
            yield f"{before}{name}", value


def source_of(ray: Any, task: ScorerJob) -> str | bytes:
    """Return what a worker builds the scorer from: its spec, or the object pickled."""
    if task.spec is not None:
        return task.spec
    usual, file = ray.cloudpickle.CloudPickler, BytesIO()
    table = ChainMap({Settings: _as_here}, usual.dispatch_table)
    pickler = type("Pickler", (usual,), {"dispatch_table": table})  # read when it is made
    try:
        pickler(file).dump(task.scorer)
    except Exception as error:  # pickling runs the object's own code
        raise UsageError(
            f"{task.name}: cannot be sent to workers ({one_line(error)}); register it under "
            "palate.scorers and name it by its spec, or use engine here"
        ) from error
    return file.getvalue()


def _as_here(settings: Settings) -> tuple[Any, ...]:
    # Device and dtype that nobody named travel as this machine chooses them: the worker's choice
    # may be another, and would give other numbers.
    if find_spec("torch") is None:  # then no model is read in any process
        return Settings.model_validate, (settings.model_dump(),)
    device = choose_device(settings.device)
    dtype = str(choose_dtype(settings.dtype, device)).removeprefix("torch.")
    return Settings.model_validate, (settings.model_dump() | {"device": device, "dtype": dtype},)


def results_in(task: ScorerJob, reply: Reply) -> list[tuple[int, Any]]:
    """Return the results of a reply; raises what the scorer raised."""
    kind, content = reply
    if kind == BROKEN:
        raise EngineError(f"{task.name}: {content}")
    if kind == LoadError.__name__:  # here its tokenizer and configuration were read
        raise EngineError(f"{task.name}: a worker cannot load its model ({content})")
    if kind != RESULTS:
        raise getattr(errors, kind, PalateError)(content)
    return list(content)


STARTING = {
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # its notices go to our stderr
    # A worker that registers late is ended and begun again: on a busy machine, without an end.
    "RAY_worker_register_timeout_seconds": "600",
}
"""What a cluster of our own reads while it starts."""


def connect(address: str) -> Any:
    """Join the cluster at an address, or start one; returns the module `ray`."""
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            f"engine ray needs Ray ({error.name} is missing): pip install 'palate[ray]'"
        ) from error
    if ray.is_initialized():
        return ray
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        quiet["include_dashboard"] = False
        for name, value in STARTING.items():
            os.environ.setdefault(name, value)
    try:
        ray.init(address, **quiet)
    except (ConnectionError, ValueError, RuntimeError, OSError, TimeoutError) as error:
        raise EngineError(
            f"engine ray: no cluster at address={address} ({one_line(error)}); "
            "expected auto, local or HOST:6379"
        ) from error
    return ray


def require(ray: Any, workers: int, threads: int, gpus: int) -> None:
    """Raise `UsageError` where the cluster is too small for the workers."""
    for each, unit, key in ((threads, "threads", "CPU"), (gpus, "GPUs", "GPU")):
        there = ray.cluster_resources().get(key, 0.0)
        if workers * each > there:
            raise UsageError(
                f"engine ray: {workers} workers of {each} {unit} need {workers * each} {key}s "
                f"and the cluster has {there:g}; ask for fewer"
            )


def one_line(error: BaseException) -> str:
    """Return an error's message on one line, without a remote traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    remote = "ray::" in str(error) or "Traceback" in str(error)
    message = lines[-1] if lines and remote else " ".join(lines)
    return f"{type(error).__name__}: {message[:300]}"
