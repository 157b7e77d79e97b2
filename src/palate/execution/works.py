"""A piece of work, built from the plan when its turn comes and dropped after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from palate.errors import PalateError
from palate.execution.plan import PREFIX, Plan, Source
from palate.records import Judge, Scorer, Slate, read_by
from palate.seeding import digest


class Place(NamedTuple):
    """Where a row finds its result: at which of its work's candidates."""

    row: int
    positions: tuple[int, ...]


class Ticket(NamedTuple):
    """What is kept of a work while it is computed: all that its lines need but the result."""

    keys: tuple[str, ...]
    places: tuple[Place, ...]
    parts: int
    """Parts shown of the user."""
    width: int
    """Number of candidates."""


class Work(NamedTuple):
    """One slate to compute, the keys of its results, and the rows that wait for it."""

    slate: Slate
    keys: tuple[str, ...]
    places: tuple[Place, ...]

    @property
    def ticket(self) -> Ticket:
        """The work without its slate."""
        return Ticket(self.keys, self.places, len(self.slate.shown), len(self.slate.candidates))


def build(
    contestant: Scorer | Judge, plan: Plan, source: Source, works: Iterable[int]
) -> Iterator[Work]:
    """Yield the works of these numbers.

    Raises `PalateError` where a context shows or a scorer reads another thing than when the work
    was planned: its numbers would be kept under the wrong key.
    """
    for number in works:
        rows = plan.rows_of(number)
        read = plan.kept.pop(rows[0], None) or read_by(contestant, source.slate(rows[0]))
        if plan.judged:
            keys: tuple[str, ...] = (digest(plan.fingerprint, read.prompt_key, read.candidates),)
        else:
            texts: tuple[str, ...] = read.candidates
            if len(rows) > 1:
                texts = tuple(text for row in rows for text in source.candidates(row))
            wide = tuple(sorted(set(texts)))
            keys = tuple(digest(plan.fingerprint, read.prompt_key, text) for text in wide)
            if wide != read.candidates:
                read = read.replace(candidates=wide)
        start, stop = plan.key_starts[number], plan.key_starts[number + 1]
        if [bytes.fromhex(key)[:PREFIX] for key in keys] != _whole(plan, int(start), int(stop)):
            raise PalateError(
                f"row {source.id(rows[0])}: the context or the scorer's reads() gave another slate "
                "than before; both must give the same for the same pair"
            )
        places = (Place(row, tuple(plan.positions[row].tolist())) for row in rows)
        yield Work(read, keys, tuple(places))


def _whole(plan: Plan, start: int, stop: int) -> list[bytes]:
    # Taken as an element, a key would lose the zeros at its end.
    raw = plan.keys[start:stop].tobytes()
    return [raw[k : k + PREFIX] for k in range(0, len(raw), PREFIX)]
