"""The reader: a language model that names what a user expects, by the user's own sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palate.answers import Sample
from palate.answers.policies import Policy
from palate.answers.prompts import NotDrawn, draw_prompts
from palate.construction.checks.answer_format import format_fault
from palate.construction.pairs.outages import refuse_outages
from palate.construction.stage import Dropped
from palate.evaluation import Progress
from palate.prompts import SentencesOf, Unreadable, parse_aspects, reader_prompt
from palate.records import RubricAspect
from palate.stores import Store

Aspects = tuple[RubricAspect, ...]
NO_TASTE, NO_SENTENCES = "reader: no taste", "reader: nothing to read"


class ReaderSubject(NamedTuple):
    """A question, and the sentences of the user whose taste is read."""

    question: str
    sentences: tuple[str, ...]
    """As they stand in the narrative or the posts; the reader names them by number, from 1."""
    of: SentencesOf


def read_aspects(
    reader: Policy,
    subjects: Sequence[ReaderSubject],
    attempts: int,
    store: Store,
    progress: Progress | None = None,
) -> list[Aspects | Dropped]:
    """Return what each subject's user expects, or why it is not known.

    Evidence is the named sentences, a line each. Attempt k, sample k of the reader, is drawn only
    for subjects without a readable reply before it; the reason is that of the last attempt. "none"
    is readable: the answer is then no matter of taste.

    Raises `EndpointError` where an endpoint did not answer; all that came is kept.
    """
    prompts = [reader_prompt(*subject) for subject in subjects]
    outcomes: list[Aspects | Dropped] = [Dropped(NO_SENTENCES)] * len(subjects)
    waiting = [k for k, subject in enumerate(subjects) if subject.sentences]
    came: list[dict[int, Sample | NotDrawn]] = []
    for attempt in range(attempts):
        numbers = [[attempt]] * len(waiting)
        drawn = draw_prompts(reader, [prompts[k] for k in waiting], numbers, store, progress)
        came += drawn
        unread = []
        for k, samples in zip(waiting, drawn, strict=True):
            outcomes[k] = outcome = _read(samples[attempt], subjects[k])
            if isinstance(outcome, Dropped) and outcome.reason != NO_TASTE:
                unread += [] if isinstance(samples[attempt], NotDrawn) else [k]
        waiting = unread
    refuse_outages(reader, came)
    return outcomes


def _read(reply: Sample | NotDrawn, subject: ReaderSubject) -> Aspects | Dropped:
    if isinstance(reply, NotDrawn):
        return Dropped(f"reader: {reply.reason}")
    if reply.cut_off:
        return Dropped("reader: cut off")
    if format_fault(reply.text) == "is a refusal":
        return Dropped("reader: refused")
    try:
        aspects = parse_aspects(reply.text, len(subject.sentences))
    except Unreadable as error:
        return Dropped(f"reader: {str(error).partition(':')[0]}")
    if not aspects:
        return Dropped(NO_TASTE)
    return tuple(
        RubricAspect(
            aspect=aspect.title,
            reason=aspect.reason,
            evidence="\n".join(subject.sentences[number - 1] for number in aspect.numbers),
        )
        for aspect in aspects
    )
