"""The study's files of pairs, made from the public data in $PALATE_DATA.

`author-couples`: opposite pairs of two people's answers to one question, one couple a question, the
benchmark that answers are drawn for. `author`: everything the same people wrote there, for figures
that need more than couples. What heads and classifiers learn from has neither of those questions
nor any of those answers in it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from palate.benchmarks import load_benchmark
from palate.benchmarks.mirrors import mirrors
from palate.records import PreferencePair
from palate.seeding import rng

COUPLES = 40
MOST_PER_USER = 7
FEW = 300

Rows = Iterable[PreferencePair]


def write_rows(data: Path, folder: Path) -> None:
    """Write all files; the same data gives the same files."""
    folder.mkdir(parents=True, exist_ok=True)
    author = load_benchmark(str(data / "stackexchange_author.jsonl.gz"))
    couples = _draw(mirrors(author).pairs)
    asked = {pair.question for pair in couples}
    answers = {text for pair in author.pairs if pair.question in asked for text in _answers(pair)}

    def apart(pair: PreferencePair) -> bool:
        return pair.question not in asked and not answers & set(_answers(pair))

    accepted = load_benchmark(str(data / "stackexchange_accepted.jsonl.gz")).pairs
    votes = load_benchmark(str(data / "convincing_arguments.jsonl.gz"), split="adapt").pairs
    few = rng("few votes", 0).permutation(len(votes))[:FEW]
    sets = {
        "author-couples": couples,
        "author": [pair for pair in author.pairs if pair.question in asked],
        "train-author": list(filter(apart, author.pairs)),
        "train-accepted": list(filter(apart, accepted)),
        "train-arguments": votes,
        "train-arguments-few": [votes[int(k)] for k in few],
    }
    for name, pairs in sets.items():
        _write(folder / f"{name}.jsonl", pairs)
        if name.startswith("train-"):
            _write(folder / f"{name}-reversed.jsonl", pairs, _reversed)


def _draw(pairs: Rows) -> list[PreferencePair]:
    """Draw one couple a question, no user in more than a sixth of them."""
    by_id = {pair.id: pair for pair in pairs}
    units = sorted({tuple(sorted((pair.id, str(pair.mirror_of)))) for pair in by_id.values()})
    found: list[PreferencePair] = []
    asked: set[str] = set()
    held: Counter[str] = Counter()
    for k in rng("couples", 0).permutation(len(units)):
        both = [by_id[one] for one in units[int(k)]]
        fresh = both[0].question not in asked
        if fresh and all(held[pair.user_id] < MOST_PER_USER for pair in both):
            found += both
            asked.add(both[0].question)
            held.update(pair.user_id for pair in both)
        if len(found) == 2 * COUPLES:
            return found
    raise SystemExit(f"only {len(found) // 2} couples of different questions; {COUPLES} are needed")


def _answers(pair: PreferencePair) -> tuple[str, str]:
    return pair.chosen, pair.rejected


def _reversed(pair: PreferencePair) -> PreferencePair:
    return pair.model_copy(update={"chosen": pair.rejected, "rejected": pair.chosen})


def _write(
    file: Path, pairs: Rows, change: Callable[[PreferencePair], PreferencePair] = lambda pair: pair
) -> None:
    lines = (json.dumps(change(pair).model_dump(mode="json", exclude_none=True)) for pair in pairs)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
