"""Section 11: ten terms of the page, one sentence each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from palate.reports.page.contents import Contents
from palate.reports.page.parts import Section

WORDS = {
    "accuracy": "The share of pairs in which the scorer prefers what the user chose; a tie counts "
    "half.",
    "baseline": "The scorers random, longest and shortest read no user, so a real scorer has to "
    "beat them.",
    "context": "The part of a user that a scorer is shown, such as three of the user’s posts.",
    "stranger": "Another user, drawn at random for each pair, whose posts are shown instead.",
    "gain": "Accuracy with the user’s own posts minus accuracy with nothing shown.",
    "identity gain": "Accuracy with the user’s own posts minus accuracy with a stranger’s: what is "
    "due to the right person.",
    "mirrored couple": "Two users who were asked the same and chose opposite answers; whoever "
    "ignores the user is right on exactly one of the two.",
    "finding": "Yes: the identity gain is above 0 with p < 0.05. Stranger’s: it is below 0 with "
    "p < 0.05. Anyone’s: only the gain over nothing is above 0 with p < 0.05. Blind: the user "
    "never changes a verdict. All ties: no pair is told apart. Not shown: none of these.",
    "95 % interval": "The range that holds the true value in 95 of 100 such experiments; users, "
    "and questions they share, are drawn anew.",
    "Holm": "A correction of p-values for testing several scorers at once.",
}


@dataclass(frozen=True)
class WordList:
    """Terms with their sentences."""

    template: ClassVar[str] = "words.html"
    words: list[tuple[str, str, str]]
    """Id, term, sentence."""


def words(contents: Contents) -> Section:
    """Return the ten terms."""
    del contents
    listed = [(f"word-{term.lower().replace(' ', '-').replace('%-', '')}", term, sentence)
              for term, sentence in WORDS.items()]  # fmt: skip
    return Section("words", "Words", [WordList(listed)])
