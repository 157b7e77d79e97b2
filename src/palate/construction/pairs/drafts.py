"""A question on its way to a pair, or to a mirrored couple."""

from __future__ import annotations

from typing import NamedTuple

from palate.construction.pairs.reader import ReaderSubject
from palate.construction.pairs.writer import WrittenPair
from palate.construction.stage import Dropped
from palate.data.rows import read_question
from palate.errors import DataError
from palate.quality.sentences import sentences
from palate.records import PreferencePair, Question

MOST_SENTENCES = 200
"""Of a user's posts the latest so many are read."""


class PairDraft(NamedTuple):
    """A question, and what the stages have added to it."""

    question: Question
    mirror: Question | None = None
    """The question of the mirror user; None where the rejected answer violates the rubric."""
    has_asked: bool = False
    """Whether the mirror user asked it."""
    writer: str | None = None
    pairs: tuple[PreferencePair, ...] = ()
    """Once they are written: the pair, or the two of the couple."""
    stage: str | None = None
    """The stage that dropped it."""
    reason: str | None = None

    @property
    def questions(self) -> tuple[Question, ...]:
        """The question, and the mirror user's where there is one."""
        return (self.question,) if self.mirror is None else (self.question, self.mirror)


def subject_of(question: Question) -> ReaderSubject:
    """Return the sentences of a user's narrative, else the latest of their posts."""
    narrative = question.gold.narrative
    if narrative:
        return ReaderSubject(question.text, tuple(sentences(narrative)), "narrative")
    read = [sentence for post in question.profile for sentence in sentences(post.text)]
    return ReaderSubject(question.text, tuple(read[-MOST_SENTENCES:]), "posts")


def with_answers(draft: PairDraft, answers: WrittenPair) -> PairDraft | Dropped:
    """Return a draft with its pairs as palate reads them; dropped where the contract refuses them.

    In a couple each user chooses the answer that the other rejects.
    """
    texts = answers.chosen, answers.rejected
    mirrors = [None] if draft.mirror is None else [draft.mirror.id, draft.question.id]
    pairs = []
    try:
        for question, mirror in zip(draft.questions, mirrors, strict=True):
            choice = dict(zip(("chosen", "rejected"), texts, strict=True))
            row = {**question.to_row(), "split": None, "mirror_of": mirror, **choice}
            pair = read_question(row, subset=question.subset)
            assert isinstance(pair, PreferencePair)
            pairs.append(pair)
            texts = texts[::-1]
    except DataError as error:
        return Dropped(f"{error.field}: {error.problem}")
    return draft._replace(pairs=tuple(pairs), writer=answers.writer)
