"""The study's files of questions, made from the public data in $PALATE_DATA.

Half of the answerers are held out, a few questions of each; the others' questions are trained on.
No user and no question is in both. Questions are cut, so that a small machine reads them often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from palate.benchmarks import load_benchmark
from palate.records import PreferencePair
from palate.seeding import shuffled
from studies.validity.rows import first_words, write_pairs

HELD_OUT_USERS, FEWEST, MOST = 14, 3, 3
"""Held-out users, the fewest questions that one has, and the most that are taken of each."""
MOST_TRAINED = 30
"""The most questions of one user that are trained on."""
QUESTION_WORDS = 30
CHOSEN_WORDS = 80
"""Of both answers that heads learn from, so that no length tells."""


def write_rows(data: Path, folder: Path) -> None:
    """Write all files; the same data gives the same files."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = load_benchmark(str(data / "stackexchange_author.jsonl.gz")).pairs
    rows = list({(pair.user_id, pair.text): pair for pair in reversed(pairs)}.values())[::-1]
    counts = Counter(row.user_id for row in rows)
    users = [user for user, n in sorted(counts.items()) if n >= FEWEST]
    apart = frozenset(shuffled(users, "held out", 0)[:HELD_OUT_USERS])
    held_out = _at_most(MOST, (row for row in rows if row.user_id in apart))
    asked = {row.text for row in held_out}
    there = [row for row in rows if row.user_id not in apart and row.text not in asked]
    train = _at_most(MOST_TRAINED, there)
    theirs = {row.chosen for row in rows if row.user_id in apart}
    learnt = [
        pair for pair in pairs
        if pair.user_id not in apart and pair.text not in asked and pair.rejected not in theirs
    ]  # fmt: skip
    write_pairs(folder / "held-out.jsonl", held_out, _short)
    write_pairs(folder / "train.jsonl", train, _short)
    write_pairs(folder / "choices.jsonl", learnt, _opening)
    write_pairs(folder / "choices-reversed.jsonl", learnt, _reversed)


def _at_most(n: int, rows: Iterable[PreferencePair]) -> list[PreferencePair]:
    """Return rows, at most n of a user, drawn by the seed."""
    taken: Counter[str] = Counter()
    few = []
    for row in shuffled(list(rows), "questions", 0):
        if taken[row.user_id] < n:
            taken[row.user_id] += 1
            few.append(row)
    return few


def _short(row: PreferencePair) -> PreferencePair:
    return row.model_copy(update={"text": first_words(row.text, QUESTION_WORDS)})


def _opening(pair: PreferencePair) -> PreferencePair:
    answers = {
        side: first_words(getattr(pair, side), CHOSEN_WORDS) for side in ("chosen", "rejected")
    }
    return _short(pair).model_copy(update={"profile": (), **answers})


def _reversed(pair: PreferencePair) -> PreferencePair:
    cut = _opening(pair)
    return cut.model_copy(update={"chosen": cut.rejected, "rejected": cut.chosen})
