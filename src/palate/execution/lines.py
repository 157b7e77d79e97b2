"""From what a contestant gave for a work to one journal line per row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeVar

from palate.errors import PalateError
from palate.execution.plan import Plan, Source
from palate.execution.works import Ticket
from palate.records import Judgement, Scores
from palate.runs import Line

T = TypeVar("T")
WILD = "no finite number"


def lines_of(
    plan: Plan, source: Source, work: Ticket, result: Scores | Judgement
) -> Iterator[tuple[int, Line]]:
    """Yield each waiting row with its line; raises `PalateError` for a wrong number of scores."""
    if isinstance(result, Judgement):
        result = _finite(result)
        for row, _ in work.places:
            yield row, Line(
                id=source.id(row), in_pass=plan.id, keys=work.keys,
                values=result.orders or (result.margin,),
                reasons=(result.reason,) if result.reason else (), raw=result.raw,
                outage=result.outage, parts=work.parts,
            )  # fmt: skip
        return
    result = _checked(result, work)
    for row, positions in work.places:
        yield row, Line(
            id=source.id(row), in_pass=plan.id,
            keys=tuple(work.keys[j] for j in positions),
            values=tuple(result.values[j] for j in positions),
            reasons=picked(result.reasons, positions), raw=picked(result.raw, positions),
            split=picked(result.split, positions),
            outage=result.outage and any(result.values[j] is None for j in positions),
            parts=work.parts,
        )  # fmt: skip


def picked(items: Sequence[T], positions: Sequence[int]) -> tuple[T, ...]:
    """Return the items at these positions; none where all of them are empty."""
    found = tuple(items[j] for j in positions) if items else ()
    return found if any(found) else ()


def _finite(result: Judgement) -> Judgement:
    values = result.orders or (result.margin,)
    if all(value is None or math.isfinite(value) for value in values):
        return result
    kept = tuple(v if v is not None and math.isfinite(v) else None for v in values)
    return result.model_copy(update={"margin": None, "orders": kept, "reason": WILD})


def _checked(result: Scores, work: Ticket) -> Scores:
    if len(result.values) != work.width:
        raise PalateError(f"a scorer gave {len(result.values)} scores for {work.width} candidates")
    wild = [value is not None and not math.isfinite(value) for value in result.values]
    if not any(wild):
        return result
    reasons = result.reasons or (None,) * len(wild)
    return result.model_copy(
        update={
            "values": tuple(None if w else v for v, w in zip(result.values, wild, strict=True)),
            "reasons": tuple(WILD if w else r for r, w in zip(reasons, wild, strict=True)),
        }
    )
