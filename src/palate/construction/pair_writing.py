"""The reader, which names what a user expects by the user's own sentences; and the writer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple, cast

from palate.answers import Sample
from palate.answers.drawing import NotDrawn, draw_prompts, refuse_outages
from palate.answers.samples import Policy
from palate.construction.rows import Dropped
from palate.construction.text_checks import format_fault
from palate.engines import EndpointLanguageModel
from palate.errors import UsageError
from palate.evaluation import Progress
from palate.prompts import (
    SentencesOf,
    Unreadable,
    parse_aspects,
    reader_prompt,
    without_thought,
    writer_prompt,
)
from palate.quality.coverage import sentences
from palate.records import Messages, Part, Question, RubricAspect, normal_form
from palate.seeding import unit
from palate.stores import Store
from palate.words import count_words

Aspects = tuple[RubricAspect, ...]
NO_TASTE, NO_SENTENCES = "reader: no taste", "reader: nothing to read"
MOST_SENTENCES = 200
"""Of a user's posts the latest so many are read."""
APART = 15
"""Per cent of the longer answer by which two may differ in words."""
Drafts = Mapping[int, Sample | NotDrawn]
_WORDS = re.compile(r"([1-9]\d{0,4})-([1-9]\d{0,4})")


def sentences_of(question: Question) -> tuple[tuple[str, ...], SentencesOf]:
    """Return the sentences of a user's narrative, else the latest of their posts."""
    if question.gold.narrative:
        return tuple(sentences(question.gold.narrative)), "narrative"
    read = [sentence for post in question.profile for sentence in sentences(post.text)]
    return tuple(read[-MOST_SENTENCES:]), "posts"


def read_aspects(
    reader: Policy,
    questions: Sequence[Question],
    attempts: int,
    store: Store,
    progress: Progress | None = None,
) -> list[Aspects | Dropped]:
    """Return what each question's user expects, or why it is not known.

    The reader names sentences by number, from 1; evidence is those, a line each, as they stand in
    the narrative or the posts. Attempt k, sample k of the reader, is drawn only for questions
    without a readable reply before it; the reason is that of the last attempt. "none" is readable:
    the answer is then no matter of taste.

    Raises `EndpointError` where an endpoint did not answer; all that came is kept.
    """
    read = [sentences_of(question) for question in questions]
    prompts = [reader_prompt(q.text, *of) for q, of in zip(questions, read, strict=True)]
    outcomes: list[Aspects | Dropped] = [Dropped(NO_SENTENCES)] * len(questions)
    waiting = [k for k, (listed, _) in enumerate(read) if listed]
    came: list[dict[int, Sample | NotDrawn]] = []
    for attempt in range(attempts):
        numbers = [[attempt]] * len(waiting)
        drawn = draw_prompts(reader, [prompts[k] for k in waiting], numbers, store, progress)
        came += drawn
        unread = []
        for k, samples in zip(waiting, drawn, strict=True):
            outcomes[k] = outcome = _read(samples[attempt], read[k][0])
            if isinstance(outcome, Dropped) and outcome.reason != NO_TASTE:
                unread += [] if isinstance(samples[attempt], NotDrawn) else [k]
        waiting = unread
    refuse_outages(reader, came)
    return outcomes


def _read(reply: Sample | NotDrawn, listed: Sequence[str]) -> Aspects | Dropped:
    if isinstance(reply, NotDrawn):
        return Dropped(f"reader: {reply.reason}")
    if reply.cut_off:
        return Dropped("reader: cut off")
    if format_fault(reply.text) == "is a refusal":
        return Dropped("reader: refused")
    try:
        aspects = parse_aspects(reply.text, len(listed))
    except Unreadable as error:
        return Dropped(f"reader: {str(error).partition(':')[0]}")
    if not aspects:
        return Dropped(NO_TASTE)
    return tuple(
        RubricAspect(
            aspect=aspect.title,
            reason=aspect.reason,
            evidence="\n".join(listed[number - 1] for number in aspect.numbers),
        )
        for aspect in aspects
    )


Side = tuple[tuple[str, ...], tuple[Part, ...]]
"""The aspects of the user who prefers an answer, and what the writer is shown of that user."""


class WrittenPair(NamedTuple):
    """Two answers to a question, and who wrote both."""

    chosen: str
    rejected: str
    writer: str
    """Its spec."""


def parse_words(text: str) -> tuple[int, int]:
    """Read the fewest and the most words of an answer; raises `UsageError`.

    >>> parse_words("70-100")
    (70, 100)
    """
    match = _WORDS.fullmatch(text)
    if match is None or int(match[1]) > int(match[2]):
        raise UsageError(f"--words {text}: expected the fewest and the most words, as 70-100")
    return int(match[1]), int(match[2])


def write_sides(
    writers: Sequence[Policy],
    subjects: Sequence[tuple[str, tuple[Messages, Messages]]],
    *,
    words: tuple[int, int],
    drafts: int,
    store: Store,
    progress: Progress | None = None,
    seed: int = 0,
) -> list[WrittenPair | Dropped]:
    """Return two answers to each question, of an id and its prompts, or why there are none.

    Both are of one writer, which the seed draws by the id. Of `drafts` samples a side
    those that cannot be an answer are left out; of the others the two nearest in length stay. Where
    no draft of a side is left, the reason is that of its last.

    Raises `EndpointError` where an endpoint did not answer; all that came is kept.
    """

    def draw(writer: Policy, prompts: Sequence[Messages]) -> list[dict[int, Sample | NotDrawn]]:
        if not isinstance(getattr(writer, "model", None), EndpointLanguageModel):
            return draw_prompts(writer, prompts, drafts, store, progress)
        # What an endpoint samples depends on how many are asked for together. Of a request for
        # all, a kill could keep some; asked for alone, the others would be other texts.
        replies: list[dict[int, Sample | NotDrawn]] = [{} for _ in prompts]
        for number in range(drafts):
            drawn = draw_prompts(writer, prompts, [[number]] * len(prompts), store, progress)
            for samples, more in zip(replies, drawn, strict=True):
                samples.update(more)
        return replies

    drawn_by = [int(unit("writer", seed, name) * len(writers)) for name, _ in subjects]
    drawn: list[list[dict[int, Sample | NotDrawn]]] = []
    for place, writer in enumerate(writers):
        of_writer = (both for (_, both), by in zip(subjects, drawn_by, strict=True) if by == place)
        prompts = [prompt for both in of_writer for prompt in both]
        drawn.append(draw(writer, prompts) if prompts else [])
    for writer, replies in zip(writers, drawn, strict=True):
        refuse_outages(writer, replies)
    replies_of = [iter(replies) for replies in drawn]
    return [
        _of_drafts(writers[by].spec, next(replies_of[by]), next(replies_of[by]), words)
        for by in drawn_by
    ]


def side_prompts(
    question: str, words: tuple[int, int], chosen: Side, rejected: Side | None = None
) -> tuple[Messages, Messages]:
    """Return what is asked for both answers; without its own side, the second violates the first's.

    What one side's prompt holds, no other's does.
    """
    prompt = partial(writer_prompt, question, words=words)
    return prompt(*chosen), prompt(*rejected) if rejected else prompt(*chosen, against=True)


def nearest(chosen: Sequence[str], rejected: Sequence[str]) -> tuple[str, str] | Dropped:
    """Return of both sides' answers the two that differ least in words, by the longer one.

    >>> nearest(["Tea is good."], ["Tea is bad, I think.", "No tea, never."])
    ('Tea is good.', 'No tea, never.')
    """
    different = [
        pair for pair in product(chosen, rejected) if len(set(map(normal_form, pair))) == 2
    ]
    if not different:
        return Dropped("writer: equal answers")
    lengths = {text: count_words(text) for text in (*chosen, *rejected)}

    def percent_apart(pair: tuple[str, str]) -> float:
        shorter, longer = sorted(lengths[text] for text in pair)
        return 100 * (longer - shorter) / longer

    pair = min(different, key=percent_apart)
    return pair if percent_apart(pair) <= APART else Dropped("writer: lengths")


def _of_drafts(
    writer: str, chosen: Drafts, rejected: Drafts, words: tuple[int, int]
) -> WrittenPair | Dropped:
    sides: list[list[str]] = []
    for drafts in (chosen, rejected):
        answers = [_answer(reply, words) for _, reply in sorted(drafts.items())]
        usable = [answer for answer in answers if isinstance(answer, str)]
        if not usable:
            return cast(Dropped, answers[-1])
        sides.append(usable)
    pair = nearest(*sides)
    return pair if isinstance(pair, Dropped) else WrittenPair(*pair, writer)


def _answer(reply: Sample | NotDrawn, words: tuple[int, int]) -> str | Dropped:
    if isinstance(reply, NotDrawn):
        return Dropped(f"writer: {reply.reason}")
    if reply.cut_off:
        return Dropped("writer: cut off")
    try:
        text = without_thought(reply.text)
    except Unreadable:
        return Dropped("writer: unreadable")
    if fault := format_fault(text):
        return Dropped(f"writer: {fault.removeprefix('is ')}")
    return text if words[0] <= count_words(text) <= words[1] else Dropped("writer: words")
