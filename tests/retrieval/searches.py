"""Twenty questions and the post that fits each, written side by side in several scripts."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from palate.retrieval import Ordering

FILE = Path(__file__).with_name("searches.txt")
"""Of each language twenty lines: a question, and the post that fits."""
OTHERS = (3, 7, 11, 17)
"""Of which questions the four other posts are, counted on from the question's own."""


class Search(NamedTuple):
    """A question, five posts oldest first, and which of them fits."""

    question: str
    posts: tuple[str, ...]
    fits: int


def searches(language: str) -> list[Search]:
    """Return the twenty searches of one language; the post that fits is never the latest."""
    _, text = FILE.read_text("utf-8").split(f"# {language}\n")
    lines = [line.split(" | ") for line in text.partition("\n#")[0].strip().splitlines()]
    made = []
    for k, (question, post) in enumerate(lines):
        posts = [lines[(k + other) % len(lines)][1] for other in OTHERS]
        fits = k % len(posts)
        made.append(Search(question, (*posts[:fits], post, *posts[fits:]), fits))
    return made


def share_right(ordering: Ordering, language: str) -> float:
    """Return the share of searches in which the post that fits comes first."""
    every = searches(language)
    return sum(ordering(it.question, it.posts).things[0] == it.fits for it in every) / len(every)
