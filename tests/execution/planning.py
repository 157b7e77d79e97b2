"""The plan as its definition reads, with plain lists: what the columns must agree with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from palate.execution import GROUPS_PER_BATCH, WorkPlan, WorkPlanner
from palate.execution.plan import CHARACTERS_PER_BATCH
from palate.records import Judge, ScorerInfo, Slate, prepare
from palate.seeding import digest

Planned = tuple[Slate, tuple[str, ...]]
"""A group: its slate and the keys of its requests."""


class Listed:
    """Slates of a list as the rows of a run."""

    def __init__(self, slates: Sequence[Slate]) -> None:
        self.slates, self.built = list(slates), 0

    def __len__(self) -> int:
        return len(self.slates)

    def prepare(self) -> None:
        pass

    def id(self, row: int) -> str:
        return f"row {row}"

    def slate(self, row: int) -> Slate:
        self.built += 1
        return self.slates[row]

    def candidates(self, row: int) -> tuple[str, ...]:
        return self.slates[row].candidates


def make_plan(scorer, info: ScorerInfo, source: Listed) -> WorkPlan:  # type: ignore[no-untyped-def]
    planner = WorkPlanner(scorer, info)
    for row in range(len(source)):
        planner.add(source.slate(row))
    return planner.plan(source)


def keys_of(scorer, info: ScorerInfo, slate: Slate) -> list[str]:  # type: ignore[no-untyped-def]
    """Return the keys of a row's requests, in the row's order."""
    read = prepare(scorer, slate).slate
    if isinstance(scorer, Judge):
        both = combinations(read.candidates, 2)
        return [digest(info.fingerprint, read.prompt_key, two) for two in both]
    return [digest(info.fingerprint, read.prompt_key, text) for text in read.candidates]


def plain_plan(scorer, info: ScorerInfo, slates: Sequence[Slate]):  # type: ignore[no-untyped-def]
    """Return (pass id, batches of groups)."""
    if isinstance(scorer, Judge):
        groups = list(_judgements(scorer, info, slates))
    elif info.exact:
        groups = list(_first_rows(scorer, info, slates))
    else:
        groups = list(_prompts(scorer, info, slates))
    groups.sort(key=lambda group: (-size(group[0]), group[1]))
    every = [groups[k : k + GROUPS_PER_BATCH] for k in range(0, len(groups), GROUPS_PER_BATCH)]
    batches = every if info.exact else list(_cut(groups))
    keys = [[group[1] for group in batch] for batch in batches]
    made = ("exact", info.fingerprint) if info.exact else ("pass", info.fingerprint, keys)
    return digest(*made), batches


def size(slate: Slate) -> int:
    texts = [m.content for m in slate.question] + [p.text for p in slate.shown]
    return sum(map(len, [*texts, *slate.candidates]))


def _judgements(judge, info: ScorerInfo, slates: Sequence[Slate]) -> Iterator[Planned]:  # type: ignore[no-untyped-def]
    seen = set()
    for slate in slates:
        read = prepare(judge, slate).slate
        both = combinations(read.candidates, 2)
        for two, key in zip(both, keys_of(judge, info, slate), strict=True):
            if key not in seen:
                seen.add(key)
                yield read.replace(candidates=two), (key,)


def _prompts(scorer, info: ScorerInfo, slates: Sequence[Slate]) -> Iterator[Planned]:  # type: ignore[no-untyped-def]
    by_prompt = defaultdict(set)
    reading = {}
    for slate in slates:
        read = prepare(scorer, slate).slate
        reading.setdefault(read.prompt_key, read)
        by_prompt[read.prompt_key].update(read.candidates)
    for prompt, texts in by_prompt.items():
        if texts:
            yield _group(info, reading[prompt], texts)


def _first_rows(scorer, info: ScorerInfo, slates: Sequence[Slate]) -> Iterator[Planned]:  # type: ignore[no-untyped-def]
    seen: set[tuple[str, str]] = set()
    for slate in slates:
        read = prepare(scorer, slate).slate
        new = {text for text in read.candidates if (read.prompt_key, text) not in seen}
        seen |= {(read.prompt_key, text) for text in new}
        if new:
            yield _group(info, read, new)


def _group(info: ScorerInfo, read: Slate, texts: set[str]) -> Planned:
    ordered = tuple(sorted(texts))
    keys = tuple(digest(info.fingerprint, read.prompt_key, text) for text in ordered)
    return read.replace(candidates=ordered), keys


def _cut(groups: Sequence[Planned]) -> Iterator[list[Planned]]:
    batch: list[Planned] = []
    characters = 0
    for group in groups:
        full = len(batch) == GROUPS_PER_BATCH or characters + size(group[0]) > CHARACTERS_PER_BATCH
        if batch and full:
            yield batch
            batch, characters = [], 0
        batch.append(group)
        characters += size(group[0])
    if batch:
        yield batch
