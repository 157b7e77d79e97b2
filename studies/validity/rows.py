"""The study's files of pairs, made from the public data in $PALATE_DATA.

40 questions are held out, with two people's answers to each: one's is opposite to the other's, a
mirrored couple. Of these, `author-couples` has the short ones, the benchmark that answers are drawn
for, and `author` all short pairs of those questions, for figures that need more than couples. What
heads and classifiers learn from has none of the held-out questions and none of their answers in it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from palate.benchmarks import load_benchmark, mirrors
from palate.records import PreferencePair
from palate.seeding import rng
from palate.words import count_words

COUPLES = 40
MOST_PER_USER = 7
FEW = 300
QUESTION_WORDS, ANSWER_WORDS, POST_WORDS = 250, 400, 300
"""What is longer is no part of the benchmarks: 22 scorers read all of it, on a small machine."""

Rows = Iterable[PreferencePair]


def write_rows(data: Path, folder: Path) -> None:
    """Write all files; the same data gives the same files."""
    folder.mkdir(parents=True, exist_ok=True)
    author = load_benchmark(str(data / "stackexchange_author.jsonl.gz"))
    couples = _draw(mirrors(author).pairs)
    asked = {pair.text for pair in couples}
    answers = {text for pair in author.pairs if pair.text in asked for text in _answers(pair)}

    def apart(pair: PreferencePair) -> bool:
        return pair.text not in asked and not answers & set(_answers(pair))

    accepted = load_benchmark(str(data / "stackexchange_accepted.jsonl.gz")).pairs
    votes = load_benchmark(str(data / "convincing_arguments.jsonl.gz"), split="adapt").pairs
    few = rng("few votes", 0).permutation(len(votes))[:FEW]
    short = {pair.id for pair in author.pairs if _is_short(pair)}
    sets = {
        "author-couples": [_shortened(p) for p in couples if {p.id, p.mirror_of} <= short],
        "author": [_shortened(p) for p in author.pairs if p.text in asked and p.id in short],
        "train-author": list(filter(apart, author.pairs)),
        "train-accepted": list(filter(apart, accepted)),
        "train-arguments": votes,
        "train-arguments-few": [votes[int(k)] for k in few],
    }
    for name, pairs in sets.items():
        write_pairs(folder / f"{name}.jsonl", pairs)
        if name.startswith("train-"):
            write_pairs(folder / f"{name}-reversed.jsonl", pairs, _reversed)


def _draw(pairs: Rows) -> list[PreferencePair]:
    """Draw one couple a question, no user in more than a sixth of them."""
    by_id = {pair.id: pair for pair in pairs}
    units = sorted({tuple(sorted((pair.id, str(pair.mirror_of)))) for pair in by_id.values()})
    found: list[PreferencePair] = []
    asked: set[str] = set()
    held: Counter[str] = Counter()
    for k in rng("couples", 0).permutation(len(units)):
        both = [by_id[one] for one in units[int(k)]]
        fresh = both[0].text not in asked
        if fresh and all(held[pair.user_id] < MOST_PER_USER for pair in both):
            found += both
            asked.add(both[0].text)
            held.update(pair.user_id for pair in both)
        if len(found) == 2 * COUPLES:
            return found
    raise SystemExit(f"only {len(found) // 2} couples of different questions; {COUPLES} are needed")


def _is_short(pair: PreferencePair) -> bool:
    texts = {pair.text: QUESTION_WORDS, **dict.fromkeys(_answers(pair), ANSWER_WORDS)}
    return all(count_words(text) <= most for text, most in texts.items()) and bool(
        _shortened(pair).profile
    )


def _shortened(pair: PreferencePair) -> PreferencePair:
    """Leave long posts out of the profile."""
    posts = tuple(post for post in pair.profile if count_words(post.text) <= POST_WORDS)
    return pair.model_copy(update={"profile": posts})


def _answers(pair: PreferencePair) -> tuple[str, str]:
    return pair.chosen, pair.rejected


def _reversed(pair: PreferencePair) -> PreferencePair:
    return pair.model_copy(update={"chosen": pair.rejected, "rejected": pair.chosen})


def first_words(text: str, n: int) -> str:
    """Return the first n words of a text, or all.

    >>> first_words("Tea or  coffee?", 2)
    'Tea or'
    """
    words = text.split()
    return text if len(words) <= n else " ".join(words[:n])


def write_pairs(
    file: Path, pairs: Rows, change: Callable[[PreferencePair], PreferencePair] = lambda pair: pair
) -> None:
    """Write a file of pairs, each changed first."""
    lines = (json.dumps(change(pair).to_row()) for pair in pairs)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
