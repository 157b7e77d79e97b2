"""An index of texts that tells which of them share a run of 13 words with another text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from palate.construction.leaks import RUN, SEED, Passage, words_of
from palate.words import pieces, runs, weight


class SharedRuns:
    """Holds many texts at once, as `Passage` holds one.

    Only the pieces of the texts that follow one another are kept: a run of 13 words holds one.

    >>> text = "one two three four five six seven eight nine ten eleven twelve thirteen"
    >>> held = SharedRuns([text, "another text"])
    >>> held.sharing(f"Zero {text.upper()}, and so on".lower().split()) == [text]
    True
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._passages: dict[str, Passage] = {}
        self._holders: dict[str, list[str]] = defaultdict(list)
        for text in dict.fromkeys(texts):
            words = words_of(text)
            if weight(words) >= RUN:
                self._passages[text] = Passage(text)
                for piece in set(pieces(words, SEED)):
                    self._holders[piece].append(text)

    def sharing(self, words: Sequence[str]) -> list[str]:
        """Return the texts that share 13 words in a row with these words."""
        holders = self._holders
        pieces_in = {run for run in runs(words, SEED) if run in holders}
        candidates = dict.fromkeys(text for run in sorted(pieces_in) for text in holders[run])
        return [text for text in candidates if self._passages[text].shares_run(words)]
