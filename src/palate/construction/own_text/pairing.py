"""The rejected text: another author's on the same input, else a named model's answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from palate.answers import build_policy, draw_samples
from palate.benchmarks import Dataset
from palate.construction.own_text.entries import ADAPT
from palate.construction.own_text.leaks import Passage, text_key, words_of
from palate.construction.own_text.spool import Spool, Spooled
from palate.evaluation import Progress, Start
from palate.records import Question, Settings
from palate.seeding import digest
from palate.session import Session

OTHERS = "others"
AT_ONCE = 256
NO_OTHER = "no other author on this input"
ALIKE = "other authors wrote nearly the same"
EMPTY, SAME = "the model's answer is empty", "the model's answer is the user's text"
IN_TEST = "the rejected text is in the test split"
USELESS = (EMPTY, SAME, IN_TEST)
"""Why a row is left out for a policy's answer."""


class Answers:
    """Answers of a policy, one to a question, each kept as it comes."""

    def __init__(self, policy: str, session: Session, settings: Settings, start: Start) -> None:
        self.spec, self._session, self._start = policy, session, start
        self._policy = build_policy(policy, session, settings)
        self.fingerprint = self._policy.fingerprint

    def draw(self, rows: Sequence[Spooled], progress: Progress) -> list[str]:
        """Return an answer to each row's question; raises what `draw_samples` does."""
        questions = tuple(
            Question(id=str(row.n), user_id=row.user, text=row.row["question"]) for row in rows
        )
        samples = draw_samples(
            self._policy, Dataset(self.spec, questions), 1, self._session.store, progress=progress
        )
        return [sample.text.strip() for (sample,) in samples.of_row]

    def pair(self, spool: Spool, split: str) -> Counter[str]:
        """Reject an answer in every row that lacks a rejected text.

        Returns how many rows are left out, since their answer is of no use, for which reason.
        """
        dropped: Counter[str] = Counter()
        missing = spool.numbers(split, "rejected IS NULL")
        if not missing:
            return dropped
        progress, total = self._start(f"answers of {self.spec}, {split} rows"), len(missing)
        done = 0
        for part in np.array_split(np.array(missing, np.int64), max(1, total // AT_ONCE)):
            rows = [spool.get(int(n)) for n in part]
            texts = self.draw(rows, _from(done, total, progress))
            done += len(rows)
            for row, text in zip(rows, texts, strict=True):
                if reason := _useless(text, row, spool):
                    spool.drop([row.n])
                    dropped[reason] += 1
                else:
                    spool.reject(row.n, text, self.spec)
        return dropped


def _from(done: int, total: int, progress: Progress) -> Progress:
    return lambda more, of_part: progress(done + more, total)


def pair_with_authors(spool: Spool, split: str, seed: int) -> set[int]:
    """Give the rows of a split another author's text where there is one, drawn by the seed.

    No adapt row gets a text that a test row holds. Two texts that are nearly the same tell no
    authors apart: returns the numbers of the rows whose other authors wrote nothing else.
    """
    alike = set()
    for n in spool.numbers(split):
        row = spool.get(n)
        chosen, shared = Passage(row.row["chosen"]), spool.is_shared(row)
        for page in spool.other_texts(row):
            texts = [text for text in page if split != ADAPT or not spool.is_test_text(text)]
            shared = shared or bool(texts)
            order = {text: digest("other author", seed, row.row["id"], text) for text in texts}
            drawn = sorted(texts, key=order.__getitem__)
            unlike = next((text for text in drawn if not chosen.is_alike(words_of(text))), None)
            if unlike is not None:
                spool.reject(n, unlike, OTHERS)
                break
        else:
            if shared:
                alike.add(n)
    return alike


def drop_unpaired(spool: Spool, split: str, alike: Collection[int]) -> Counter[str]:
    """Leave out the rows without another author's text, and count them by the reason."""
    missing = spool.numbers(split, "rejected IS NULL")
    spool.drop(missing)
    return Counter(ALIKE if n in alike else NO_OTHER for n in missing)


def _useless(text: str, row: Spooled, spool: Spool) -> str | None:
    if not text:
        return EMPTY
    if text_key(text) == row.text or Passage(row.row["chosen"]).is_alike(words_of(text)):
        return SAME
    return IN_TEST if row.row["split"] == ADAPT and spool.is_test_text(text) else None
