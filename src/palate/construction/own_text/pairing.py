"""The rejected text: another author's on the same input, else a named model's answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from palate.benchmarks import Dataset
from palate.construction.own_text.entries import ADAPT
from palate.construction.own_text.leaks import text_key
from palate.construction.own_text.spool import Spool, Spooled
from palate.downstream.sampling import build_policy, draw_samples
from palate.downstream.sampling.policies import Sample
from palate.evaluation import Start
from palate.records import Question, Settings
from palate.seeding import digest
from palate.session import Session

OTHERS = "others"
AT_ONCE = 256
NO_OTHER = "no other author on this input"
EMPTY, SAME = "the model's answer is empty", "the model's answer is the user's text"
IN_TEST = "the rejected text is in the test split"


Draw = Callable[[Sequence[str]], list[Sample]]
"""Answers questions, one answer to each."""


def drawing(policy: str, session: Session, settings: Settings, start: Start) -> tuple[Draw, str]:
    """Return what answers questions, each answer kept as it comes, and the hash of who answers.

    Raises what `build_policy` does, and on drawing what `draw_samples` does.
    """
    built = build_policy(policy, session, settings)
    progress = start(f"sampling {policy}")

    def draw(questions: Sequence[str]) -> list[Sample]:
        rows = tuple(
            Question(id=str(k), user_id=str(k), text=text) for k, text in enumerate(questions)
        )
        samples = draw_samples(built, Dataset(policy, rows), 1, session.store, progress=progress)
        return [sample for (sample,) in samples.of_row]

    return draw, built.fingerprint


def pair_with_authors(spool: Spool, split: str, seed: int) -> None:
    """Give the rows of a split another author's text where there is one, drawn by the seed.

    No adapt row gets a text that a test row holds.
    """
    for n in spool.numbers(split):
        row = spool.get(n)
        texts = spool.others(row)
        if split == ADAPT:
            texts = [text for text in texts if not spool.is_test_text(text)]
        if texts:
            order = {text: digest("other author", seed, row.row["id"], text) for text in texts}
            spool.reject(n, min(texts, key=order.__getitem__), OTHERS)


def drop_unpaired(spool: Spool, split: str) -> Counter[str]:
    """Leave out the rows that no other author wrote on, and count them."""
    missing = spool.numbers(split, "rejected IS NULL")
    spool.drop(missing)
    return Counter({NO_OTHER: len(missing)} if missing else {})


def pair_with_answers(spool: Spool, split: str, policy: str, draw: Draw) -> Counter[str]:
    """Draw the answers that are missing; leave out, and count, rows whose answer is of no use."""
    dropped: Counter[str] = Counter()
    missing = spool.numbers(split, "rejected IS NULL")
    parts = np.array_split(np.array(missing, np.int64), max(1, len(missing) // AT_ONCE))
    for part in parts if missing else ():
        rows = [spool.get(int(n)) for n in part]
        answers = draw([row.row["question"] for row in rows])
        for row, answer in zip(rows, answers, strict=True):
            text = answer.text.strip()
            if reason := _useless(text, row, spool):
                spool.drop([row.n])
                dropped[reason] += 1
            else:
                spool.reject(row.n, text, policy)
    return dropped


def _useless(text: str, row: Spooled, spool: Spool) -> str | None:
    if not text:
        return EMPTY
    if text_key(text) == row.text:
        return SAME
    return IN_TEST if row.row["split"] == ADAPT and spool.is_test_text(text) else None
