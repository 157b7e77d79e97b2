"""The seam between what is to be computed and where: one file per place.

A runner is registered under the entry point group `palate.engines` and called with its spec. It
never says what is computed, so it has no part in a run's identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from palate.errors import ResourceError, UsageError
from palate.records import (
    Judge,
    Judgement,
    Prepared,
    Scorer,
    Scores,
    Settings,
    components_of,
    results_of,
)
from palate.session import Session
from palate.specs import Spec, load

GROUP = "palate.engines"
HERE = "here"


class ScorerJob(NamedTuple):
    """Who computes: built anew from its spec elsewhere, or the object itself where it has none."""

    scorer: Scorer | Judge
    """The whole scorer, in this process."""
    component: int
    """Which of its components."""
    spec: str | None
    session: Session
    settings: Settings
    name: str
    check_memory: bool = False
    """Whether a runner in this process first makes sure that its models fit into memory."""

    @property
    def computes(self) -> Scorer | Judge:
        """Who computes this component."""
        return components_of(self.scorer)[self.component].scorer


class Batch(NamedTuple):
    """What is computed together: a whole batch of the plan, or some groups of an exact one."""

    number: int
    prepared: tuple[Prepared, ...]


class BatchResult(NamedTuple):
    """One result: of which unit, at which position in it."""

    unit: int
    position: int
    result: Scores | Judgement


class Runner(Protocol):
    """Computes units somewhere."""

    def groups_per_batch(self, groups: int) -> int:
        """Return how many of an exact scorer's groups make one unit."""

    def run(self, task: ScorerJob, units: Iterable[Batch]) -> Iterator[BatchResult]:
        """Yield results as they come, each position of each unit once; units are drawn as needed.

        Raises `PalateError` where a position stays without a result.
        """


class LocalRunner:
    """In this process, one unit after the other."""

    def __init__(self, spec: Spec) -> None:
        spec.refuse_reference()
        spec.only(())

    def groups_per_batch(self, groups: int) -> int:
        """Many: an endpoint is kept busy, and one unit's slates are all that is in memory."""
        return 4096

    def run(self, task: ScorerJob, units: Iterable[Batch]) -> Iterator[BatchResult]:
        """Yield results as the scorer gives them; raises `ResourceError` where memory is short."""
        for number, unit in enumerate(units):
            if task.check_memory and not number and not task.session.has_room(task.settings):
                raise ResourceError(f"{task.name}: out of memory before it is loaded")
            for position, result in compute(task.computes, unit.prepared):
                yield BatchResult(unit.number, position, result)


def build_runner(engine: str | None) -> Runner:
    """Build what an engine spec names; None is this process."""
    spec = Spec.parse(engine or HERE)
    made: Runner = load(GROUP, spec.kind)(spec)
    return made


def compute(
    scorer: Scorer | Judge, prepared: tuple[Prepared, ...]
) -> Iterator[tuple[int, Scores | Judgement]]:
    """Yield (position, result), each position once; raises `UsageError` where it is not so."""
    waiting = set(range(len(prepared)))
    name = type(scorer).__name__
    for k, result in results_of(scorer, prepared):
        if k not in waiting:
            raise UsageError(f"{name} gave position {k} twice or out of range")
        waiting.remove(k)
        yield k, result
    if waiting:
        raise UsageError(f"{name} gave no result for {len(waiting)} slates")
