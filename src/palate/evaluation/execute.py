"""One pass: what is not known yet is computed, batch by batch, and journalled as it comes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from palate.errors import PalateError
from palate.evaluation.plan import Plan, Work
from palate.records import Judgement, Scores, Traits
from palate.records.protocols import Judge, Scorer
from palate.runs import Journal, Line

Advance = Callable[[int], None]
T = TypeVar("T")


class Entry(NamedTuple):
    """What is known under one key."""

    value: float | None
    reason: str | None
    raw: str | None
    split: bool
    parts: int


@dataclass
class Known:
    """Results by key, from this run's journal and from others of the same pass."""

    lines: dict[tuple[str, ...], Line] = field(default_factory=dict)
    values: dict[str, Entry] = field(default_factory=dict)
    outages: set[str] = field(default_factory=set)

    def add(self, line: Line) -> None:
        """Take over a line; a later one wins."""
        self.lines[line.keys] = line
        if len(line.keys) == len(line.values):
            for k, key in enumerate(line.keys):
                reason = line.reasons[k] if line.reasons else None
                raw = line.raw[k] if line.raw else None
                split = bool(line.split) and line.split[k]
                self.values[key] = Entry(line.values[k], reason, raw, split, line.parts)
        for key in line.keys:
            (self.outages.add if line.outage else self.outages.discard)(key)


def execute(
    contestant: Scorer | Judge,
    traits: Traits,
    plan: Plan,
    row_ids: Sequence[str],
    known: Known,
    journal: Journal | None,
    own: set[tuple[str, tuple[str, ...]]],
    *,
    retry_unscored: bool = False,
    advance: Advance = lambda n: None,
) -> dict[int, Line]:
    """Return each row's line of this pass.

    `own` holds (row id, keys) of the lines this run's journal has already: they are not written
    again, unless their work was computed anew.
    """
    found: dict[int, Line] = {}
    for batch in plan.batches:
        todo = [work for work in batch if not _is_known(contestant, work, known, retry_unscored)]
        computed: set[tuple[str, ...]] = set()
        if todo:
            again = todo if traits.exact else batch
            for work, lines in _compute(contestant, plan, again, row_ids):
                for row, line in lines:
                    found[row] = line
                    known.add(line)
                computed.add(work.keys)
                if traits.exact:  # each result is final by itself
                    _write(journal, [line for _, line in lines])
                    advance(len(lines))
            if not traits.exact:
                fresh = [found[p.row] for work in again for p in work.places]
                _write(journal, fresh)
                advance(len(fresh))
        recalled = []
        for work in batch:
            if work.keys in computed:
                continue
            for row, line in _recall(contestant, plan, work, row_ids, known):
                found[row] = line
                if (line.id, line.keys) not in own:
                    recalled.append(line)
                advance(1)
        _write(journal, recalled)
    return found


def _write(journal: Journal | None, lines: Sequence[Line]) -> None:
    if journal is not None:
        journal.append(lines)


def _is_known(contestant: Scorer | Judge, work: Work, known: Known, retry_unscored: bool) -> bool:
    if any(key in known.outages for key in work.keys):
        return False
    if isinstance(contestant, Judge):
        line = known.lines.get(work.keys)
        return line is not None and not (retry_unscored and None in line.values)
    entries = [known.values.get(key) for key in work.keys]
    return all(
        entry is not None and not (retry_unscored and entry.value is None) for entry in entries
    )


def _compute(
    contestant: Scorer | Judge, plan: Plan, works: Sequence[Work], row_ids: Sequence[str]
) -> Iterator[tuple[Work, list[tuple[int, Line]]]]:
    slates = [work.slate for work in works]
    waiting = set(range(len(works)))
    results: Iterable[tuple[int, Scores | Judgement]] = (
        contestant.judge(slates) if isinstance(contestant, Judge) else contestant.score(slates)
    )
    for k, result in results:
        if k not in waiting:
            raise PalateError(
                f"{type(contestant).__name__} gave position {k} twice or out of range"
            )
        waiting.remove(k)
        yield works[k], _lines(plan, works[k], result, row_ids)
    if waiting:
        raise PalateError(f"{type(contestant).__name__} gave no result for {len(waiting)} slates")


def _lines(
    plan: Plan, work: Work, result: Scores | Judgement, row_ids: Sequence[str]
) -> list[tuple[int, Line]]:
    parts = len(work.slate.shown)
    if isinstance(result, Scores):
        result = _checked(result, work)
    lines = []
    for row, positions in work.places:
        if isinstance(result, Judgement):
            line = Line(
                id=row_ids[row], in_pass=plan.id, keys=work.keys,
                values=result.orders or (result.margin,),
                reasons=(result.reason,) if result.reason else (), raw=result.raw,
                outage=result.outage, parts=parts,
            )  # fmt: skip
        else:
            line = Line(
                id=row_ids[row], in_pass=plan.id,
                keys=tuple(work.keys[j] for j in positions),
                values=tuple(result.values[j] for j in positions),
                reasons=_at(result.reasons, positions), raw=_at(result.raw, positions),
                split=_at(result.split, positions),
                outage=result.outage and any(result.values[j] is None for j in positions),
                parts=parts,
            )  # fmt: skip
        lines.append((row, line))
    return lines


def _at(items: Sequence[T], positions: Sequence[int]) -> tuple[T, ...]:
    picked = tuple(items[j] for j in positions) if items else ()
    return picked if any(picked) else ()


def _checked(result: Scores, work: Work) -> Scores:
    if len(result.values) != len(work.slate.candidates):
        raise PalateError(
            f"a scorer gave {len(result.values)} scores for {len(work.slate.candidates)} candidates"
        )
    wild = [value is not None and not math.isfinite(value) for value in result.values]
    if not any(wild):
        return result
    reasons = result.reasons or (None,) * len(wild)
    return result.model_copy(
        update={
            "values": tuple(None if w else v for v, w in zip(result.values, wild, strict=True)),
            "reasons": tuple(
                "no finite number" if w else r for r, w in zip(reasons, wild, strict=True)
            ),
        }
    )


def _recall(
    contestant: Scorer | Judge, plan: Plan, work: Work, row_ids: Sequence[str], known: Known
) -> Iterator[tuple[int, Line]]:
    for row, positions in work.places:
        if isinstance(contestant, Judge):
            there = known.lines[work.keys]
            yield (
                row,
                there.model_copy(update={"id": row_ids[row], "in_pass": plan.id, "last": False}),
            )
            continue
        keys = tuple(work.keys[j] for j in positions)
        entries = [known.values[key] for key in keys]
        everything = range(len(entries))
        yield row, Line(
            id=row_ids[row], in_pass=plan.id, keys=keys,
            values=tuple(entry.value for entry in entries),
            reasons=_at([entry.reason for entry in entries], everything),
            raw=_at([entry.raw for entry in entries], everything),
            split=_at([entry.split for entry in entries], everything),
            parts=entries[0].parts,
        )  # fmt: skip
