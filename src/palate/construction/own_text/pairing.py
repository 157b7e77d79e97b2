"""The rejected text: another author's on the same input, else a named model's answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from palate.answers import build_policy, draw_samples
from palate.benchmarks import Dataset
from palate.construction.leaks import Passage, text_key, words_of
from palate.construction.own_text.entries import ADAPT
from palate.construction.own_text.selection import PARTS
from palate.construction.own_text.spool import RowKeys, Spool, Spooled
from palate.construction.stage import Dropped, Stage
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

    def stage(self, spool: Spool, split: str) -> Stage[RowKeys, RowKeys]:
        """Return the stage that rejects an answer in every row that lacks a rejected text."""

        def work(rows: Iterator[RowKeys]) -> Iterator[RowKeys | Dropped]:
            useless = dict(self._pair(spool, split))
            yield from (Dropped(useless[row.n]) if row.n in useless else row for row in rows)

        return Stage("answer", PARTS[split], work)

    def _pair(self, spool: Spool, split: str) -> Iterator[tuple[int, str]]:
        missing = spool.numbers(split, "rejected IS NULL")
        if not missing:
            return
        progress, total = self._start(f"answers of {self.spec}, {split} rows"), len(missing)
        done = 0
        for part in np.array_split(np.array(missing, np.int64), max(1, total // AT_ONCE)):
            rows = [spool.get(int(n)) for n in part]
            texts = self.draw(rows, _from(done, total, progress))
            done += len(rows)
            for row, text in zip(rows, texts, strict=True):
                if reason := _useless(text, row, spool):
                    yield row.n, reason
                else:
                    spool.reject(row.n, text, self.spec)


def _from(done: int, total: int, progress: Progress) -> Progress:
    return lambda more, of_part: progress(done + more, total)


def author_stage(spool: Spool, split: str, seed: int, *, needed: bool) -> Stage[Spooled, Spooled]:
    """Return the stage that gives rows another author's text where there is one.

    The seed draws it. No adapt row gets a text that a test row holds, and two texts that are nearly
    the same tell no authors apart. Where it is not `needed`, a row without one goes on.
    """

    def reason(row: Spooled) -> str | None:
        why = _reject_author(row, spool, split, seed)
        return why if needed else None

    return Stage.by_reason("another author", PARTS[split], reason)


def _reject_author(row: Spooled, spool: Spool, split: str, seed: int) -> str | None:
    chosen, shared = Passage(row.row["chosen"]), spool.is_shared(row)
    for page in spool.other_texts(row):
        texts = [text for text in page if split != ADAPT or not _is_test_text(text, spool)]
        shared = shared or bool(texts)
        order = {text: digest("other author", seed, row.row["id"], text) for text in texts}
        drawn = sorted(texts, key=order.__getitem__)
        unlike = next((text for text in drawn if not chosen.is_alike(words_of(text))), None)
        if unlike is not None:
            spool.reject(row.n, unlike, OTHERS)
            return None
    return ALIKE if shared else NO_OTHER


def _is_test_text(text: str, spool: Spool) -> bool:
    return spool.is_in_test("text", text_key(text))


def _useless(text: str, row: Spooled, spool: Spool) -> str | None:
    if not text:
        return EMPTY
    if text_key(text) == row.text or Passage(row.row["chosen"]).is_alike(words_of(text)):
        return SAME
    return IN_TEST if row.row["split"] == ADAPT and _is_test_text(text, spool) else None
