"""The plan as its definition reads, with plain lists: what the columns must agree with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from palate.execution.plan import CHARACTERS_PER_BATCH, WORKS_PER_BATCH
from palate.records import Judge, Slate, Traits, read_by
from palate.seeding import digest


class Listed:
    """Slates of a list as the rows of a run."""

    def __init__(self, slates: Sequence[Slate]) -> None:
        self.slates, self.built = list(slates), 0

    def __len__(self) -> int:
        return len(self.slates)

    def id(self, row: int) -> str:
        return f"row {row}"

    def slate(self, row: int) -> Slate:
        self.built += 1
        return self.slates[row]

    def candidates(self, row: int) -> tuple[str, ...]:
        return self.slates[row].candidates


def plain_plan(contestant, traits: Traits, slates: Sequence[Slate]):  # type: ignore[no-untyped-def]
    """Return (pass id, batches of works); a work is (slate, keys, {row: positions})."""
    if isinstance(contestant, Judge):
        works = list(_judgements(contestant, traits, slates))
    else:
        works = list(_scores(contestant, traits, slates))
    works.sort(key=lambda work: (-size(work[0]), work[1]))
    batches = [works] if traits.exact else list(_cut(works))
    keys = [[work[1] for work in batch] for batch in batches]
    made = ("exact", traits.fingerprint) if traits.exact else ("pass", traits.fingerprint, keys)
    return digest(*made), batches


def size(slate: Slate) -> int:
    texts = [m.content for m in slate.question] + [p.text for p in slate.shown]
    return sum(map(len, [*texts, *slate.candidates]))


def _judgements(judge, traits: Traits, slates: Sequence[Slate]):  # type: ignore[no-untyped-def]
    works: dict[str, tuple] = {}  # type: ignore[type-arg]
    for row, slate in enumerate(slates):
        read = read_by(judge, slate)
        key = digest(traits.fingerprint, read.prompt_key, read.candidates)
        works.setdefault(key, (read, (key,), {}))[2][row] = (0, 1)
    return works.values()


def _scores(scorer, traits: Traits, slates: Sequence[Slate]) -> Iterator[tuple]:  # type: ignore[no-untyped-def, type-arg]
    prompts = defaultdict(list)
    for row, slate in enumerate(slates):
        prompts[read_by(scorer, slate).prompt_key].append(row)
    for prompt, rows in prompts.items():
        for together in _sharing(rows, slates) if traits.exact else [rows]:
            texts = sorted({text for row in together for text in slates[row].candidates})
            read = read_by(scorer, slates[together[0]]).replace(candidates=tuple(texts))
            keys = tuple(digest(traits.fingerprint, prompt, text) for text in texts)
            places = {r: tuple(texts.index(t) for t in slates[r].candidates) for r in together}
            yield read, keys, places


def _sharing(rows: Sequence[int], slates: Sequence[Slate]) -> list[list[int]]:
    groups: list[list[int]] = []
    for row in rows:
        mine = set(slates[row].candidates)
        joined = [g for g in groups if any(mine & set(slates[r].candidates) for r in g)]
        groups = [g for g in groups if g not in joined] + [
            sorted([row, *(r for g in joined for r in g)])
        ]
    return groups


def _cut(works: Sequence[tuple]) -> Iterator[list[tuple]]:  # type: ignore[type-arg]
    batch: list[tuple] = []  # type: ignore[type-arg]
    characters = 0
    for work in works:
        full = len(batch) == WORKS_PER_BATCH or characters + size(work[0]) > CHARACTERS_PER_BATCH
        if batch and full:
            yield batch
            batch, characters = [], 0
        batch.append(work)
        characters += size(work[0])
    if batch:
        yield batch
