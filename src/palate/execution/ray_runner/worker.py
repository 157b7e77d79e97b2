"""The part that runs on a worker, and the messages that travel there and back.

What goes wrong travels back as a value, so that it reaches the user as one line and costs no retry.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections import ChainMap
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from io import BytesIO
from typing import Any, NamedTuple

from palate import errors
from palate.errors import EngineError, LoadError, ModelError, PalateError, UsageError
from palate.execution.ray_runner.cluster import one_line
from palate.execution.runner import ScorerJob, compute
from palate.models import choose_device, choose_dtype
from palate.records import Judge, Prepared, Scorer, Settings, components_of, info_of
from palate.runs import versions
from palate.scorers import build_scorer
from palate.session import Session, use

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


class Worker:
    """Scores units of one component of a scorer, which it builds once."""

    def __init__(
        self,
        source: str | bytes,
        session: Mapping[str, Any],
        settings: Settings,
        component: int,
        paths: list[str],
        planned: ScorerIdentity,
        name: str,
    ) -> None:
        # A scorer's own module may lie beside the script that named it.
        sys.path += [path for path in paths if path not in sys.path]
        self._source, self._session = source, session
        self._settings, self._component = settings, component
        self._planned, self._name = planned, name
        self._scorer: Any = None

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
        source, session = self._source, use(Session(**self._session))
        try:
            if isinstance(source, bytes):
                whole = pickle.loads(source)
            else:
                whole = build_scorer(source, session, self._settings)
        except ModelError as error:  # which is there where the work is planned
            raise LoadError(str(error)) from error
        scorer = components_of(whole)[self._component].scorer
        # A machine that chooses another device or dtype by itself gives other numbers.
        if differ := self._planned.differences(ScorerIdentity.of(scorer, self._name)):
            raise EngineError(
                f"{self._name}: a worker would compute something else than what is planned here "
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
