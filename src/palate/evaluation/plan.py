"""What is to be computed: each piece of work once, in canonical order, cut into batches.

The plan depends on the rows and the computation alone, never on what a cache holds, so a resumed
run computes the same batches as one that was never stopped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from palate.records import Slate, Traits, read_by
from palate.records.protocols import Judge, Scorer
from palate.seeding import digest

WORKS_PER_BATCH = 32
CHARACTERS_PER_BATCH = 400_000


class Place(NamedTuple):
    """Where a row finds its result: in which work, at which of its candidates."""

    row: int
    positions: tuple[int, ...]


@dataclass(slots=True)
class Work:
    """One slate to compute, the keys of its results, and the rows that wait for it."""

    slate: Slate
    keys: tuple[str, ...]
    places: list[Place] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plan:
    """Works in canonical order, cut into batches; `id` names the pass."""

    id: str
    batches: tuple[tuple[Work, ...], ...]

    @property
    def works(self) -> Iterable[Work]:
        """All works in order."""
        return (work for batch in self.batches for work in batch)


def make_plan(contestant: Scorer | Judge, traits: Traits, slates: Sequence[Slate]) -> Plan:
    """Plan one pass over these slates.

    Slates that a scorer reads alike but for the candidates become one wide slate, so each
    (question, shown, response) is scored once; a judge's pairs stay pairs. For
    an exact contestant one batch holds everything: its results do not depend on what they are
    computed with.
    """
    works = _judgements(contestant, traits, slates) if isinstance(contestant, Judge) else (
        _scores(contestant, traits, slates)
    )  # fmt: skip
    works.sort(key=lambda work: (-_characters(work.slate), work.keys))
    if traits.exact:
        return Plan(digest("exact", traits.fingerprint), (tuple(works),) if works else ())
    batches = tuple(_cut(works))
    keys = [[work.keys for work in batch] for batch in batches]
    return Plan(digest("pass", traits.fingerprint, keys), batches)


def _judgements(judge: Judge, traits: Traits, slates: Sequence[Slate]) -> list[Work]:
    works: dict[str, Work] = {}
    for row, slate in enumerate(slates):
        read = read_by(judge, slate)
        key = digest(traits.fingerprint, read.prompt_key, read.candidates)
        work = works.setdefault(key, Work(read, (key,)))
        work.places.append(Place(row, (0, 1)))
    return list(works.values())


def _scores(scorer: Scorer, traits: Traits, slates: Sequence[Slate]) -> list[Work]:
    reads = [read_by(scorer, slate) for slate in slates]
    groups: dict[str, list[int]] = defaultdict(list)
    for row, read in enumerate(reads):
        groups[read.prompt_key].append(row)
    works = []
    for prompt, rows in groups.items():
        texts = sorted({text for row in rows for text in reads[row].candidates})
        position = {text: k for k, text in enumerate(texts)}
        wide = reads[rows[0]].replace(candidates=tuple(texts))
        keys = tuple(digest(traits.fingerprint, prompt, text) for text in texts)
        places = [Place(row, tuple(position[t] for t in slates[row].candidates)) for row in rows]
        works.append(Work(wide, keys, places))
    return works


def _cut(works: Sequence[Work]) -> Iterable[tuple[Work, ...]]:
    batch: list[Work] = []
    characters = 0
    for work in works:
        size = _characters(work.slate)
        if batch and (len(batch) == WORKS_PER_BATCH or characters + size > CHARACTERS_PER_BATCH):
            yield tuple(batch)
            batch, characters = [], 0
        batch.append(work)
        characters += size
    if batch:
        yield tuple(batch)


def _characters(slate: Slate) -> int:
    texts = [m.content for m in slate.question] + [p.text for p in slate.shown]
    return sum(map(len, texts)) + sum(map(len, slate.candidates))
