"""A group of requests as one slate: built from the plan when its turn comes, and dropped after."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

from palate.errors import PalateError
from palate.execution.plan import PREFIX, RowSource, WorkPlan
from palate.records import Encoded, Judge, Judgement, Prepared, Scorer, Scores, prepare
from palate.runs import Line
from palate.seeding import digest

NON_FINITE = "no finite number"


class RequestGroup(NamedTuple):
    """Requests that are computed as one slate, without it: what their journal line needs."""

    number: int
    row: str
    """Id of the first row that makes any of them."""
    keys: tuple[str, ...]
    parts: int
    """Parts shown of the user."""


def build(
    scorer: Scorer | Judge, plan: WorkPlan, source: RowSource, groups: Iterable[int]
) -> Iterator[tuple[RequestGroup, Prepared]]:
    """Yield the groups of these numbers, each with its slate.

    Raises `PalateError` where a context shows or a scorer reads another thing than when the group
    was planned: its numbers would be kept under the wrong key.
    """
    for number in groups:
        requests = plan.of_group(number)
        row = int(plan.first_row[requests[0]])
        whole = _prepared(scorer, plan, source, row)
        prompt = whole.slate.prompt_key
        if plan.judged:
            pairs = list(combinations(whole.slate.candidates, 2))
            both = pairs[int(plan.first_place[requests[0]])]
            keys: tuple[str, ...] = (digest(plan.fingerprint, prompt, both),)
            if len(pairs) == 1:
                read = whole
            else:  # what fits beside the longest may not beside these two, counted in tokens
                read = prepare(scorer, whole.slate.replace(candidates=both))
        else:
            read = _of_requests(whole, plan, source, requests)
            keys = tuple(digest(plan.fingerprint, prompt, t) for t in read.slate.candidates)
        if not plan.judged or int(plan.row_starts[row + 1] - plan.row_starts[row]) == 1:
            for k in {int(plan.first_row[k]) for k in requests}:
                plan.prepared.pop(k, None)
        if [bytes.fromhex(key)[:PREFIX] for key in keys] != _planned(plan, requests):
            raise PalateError(
                f"row {source.id(row)}: the context or the scorer's prepare() gave another slate "
                "than before; both must give the same for the same question"
            )
        yield RequestGroup(number, source.id(row), keys, len(whole.slate.shown)), read


def _prepared(scorer: Scorer | Judge, plan: WorkPlan, source: RowSource, row: int) -> Prepared:
    ready = plan.prepared.get(row)
    if ready is not None:
        return ready
    return prepare(scorer, source.slate(row), int(plan.dropped[row]) if len(plan.dropped) else None)


def _of_requests(whole: Prepared, plan: WorkPlan, source: RowSource, requests: range) -> Prepared:
    # The group's texts in its order, each with what the first row that has it was tokenised to.
    texts: list[str] = []
    inputs: list[Encoded] = []
    for k in requests:
        row, place = int(plan.first_row[k]), int(plan.first_place[k])
        texts.append(source.candidates(row)[place])
        ready = plan.prepared.get(row)
        if ready is not None and ready.inputs:
            inputs.append(ready.inputs[place])
    slate = whole.slate
    return Prepared(
        slate if slate.candidates == tuple(texts) else slate.replace(candidates=tuple(texts)),
        whole.dropped,
        tuple(inputs) if len(inputs) == len(texts) else (),
    )


def line_of(plan: WorkPlan, group: RequestGroup, result: Scores | Judgement) -> Line:
    """Return the journal line of a group; raises `PalateError` for a wrong number of scores."""
    same = {"id": group.row, "in_pass": plan.id, "keys": group.keys, "parts": group.parts}
    if isinstance(result, Judgement):
        values = result.orders or (result.margin,)
        wild = [value is not None and not math.isfinite(value) for value in values]
        reason = NON_FINITE if any(wild) else result.reason
        return Line(
            **same,
            values=_finite(values, wild),
            reasons=(reason,) if reason else (),
            raw=result.raw,
            outage=result.outage,
        )
    n = len(group.keys)
    if len(result.values) != n:
        raise PalateError(f"a scorer gave {len(result.values)} scores for {n} candidates")
    wild = [value is not None and not math.isfinite(value) for value in result.values]
    reasons = result.reasons
    if any(wild):
        before = reasons or (None,) * n
        reasons = tuple(NON_FINITE if w else r for w, r in zip(wild, before, strict=True))
    return Line(
        **same,
        values=_finite(result.values, wild),
        reasons=reasons,
        raw=result.raw,
        split=result.split,
        outage=result.outage and None in result.values,
    )


def _finite(values: tuple[float | None, ...], wild: list[bool]) -> tuple[float | None, ...]:
    return tuple(None if w else v for v, w in zip(values, wild, strict=True))


def _planned(plan: WorkPlan, requests: range) -> list[bytes]:
    # Taken as an element, a key would lose the zeros at its end.
    raw = plan.keys[requests.start : requests.stop].tobytes()
    return [raw[k : k + PREFIX] for k in range(0, len(raw), PREFIX)]
