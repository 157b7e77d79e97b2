"""The writer: a language model that answers a question for each of two tastes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple, cast

from palate.answers import Sample
from palate.answers.policies import Messages, Policy
from palate.answers.prompts import NotDrawn, draw_prompts
from palate.construction.checks.answer_format import format_fault
from palate.construction.pairs.outages import refuse_outages
from palate.construction.stage import Dropped
from palate.engines.language_model import EndpointLanguageModel
from palate.errors import UsageError
from palate.evaluation import Progress
from palate.prompts import Unreadable, without_thought, writer_prompt
from palate.records import Part, normal_form
from palate.seeding import unit
from palate.stores import Store
from palate.words import count_words

APART = 15
"""Per cent of the longer answer by which two may differ in words."""
Drafts = Mapping[int, Sample | NotDrawn]
_WORDS = re.compile(r"([1-9]\d{0,4})-([1-9]\d{0,4})")


class WriterSubject(NamedTuple):
    """A question and the aspects of both sides; what one side's prompt holds, no other's does."""

    id: str
    """By which its writer is drawn."""
    question: str
    chosen_titles: tuple[str, ...]
    rejected_titles: tuple[str, ...]
    """Of the user who prefers the rejected answer; unread where it violates the chosen's."""
    chosen_parts: tuple[Part, ...] = ()
    rejected_parts: tuple[Part, ...] = ()
    violate: bool = False


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
    sides: Sequence[WriterSubject],
    *,
    words: tuple[int, int],
    drafts: int,
    store: Store,
    progress: Progress | None = None,
    seed: int = 0,
) -> list[WrittenPair | Dropped]:
    """Return two answers to each question, or why there are none.

    Both are of one writer, which the seed draws by the subject's id. Of `drafts` samples a side
    those that cannot be an answer are left out; of the others the two nearest in length stay. Where
    no draft of a side is left, the reason is that of its last.

    Raises `EndpointError` where an endpoint did not answer; all that came is kept.
    """
    drawn_by = [int(unit("writer", seed, subject.id) * len(writers)) for subject in sides]
    drawn: list[list[dict[int, Sample | NotDrawn]]] = []
    for place, writer in enumerate(writers):
        of_writer = (side for side, by in zip(sides, drawn_by, strict=True) if by == place)
        prompts = [prompt for side in of_writer for prompt in side_prompts(side, words)]
        drawn.append(_draw(writer, prompts, drafts, store, progress) if prompts else [])
    for writer, replies in zip(writers, drawn, strict=True):
        refuse_outages(writer, replies)
    replies_of = [iter(replies) for replies in drawn]
    return [
        _of_drafts(writers[by].spec, next(replies_of[by]), next(replies_of[by]), words)
        for by in drawn_by
    ]


def _draw(
    writer: Policy,
    prompts: Sequence[Messages],
    drafts: int,
    store: Store,
    progress: Progress | None,
) -> list[dict[int, Sample | NotDrawn]]:
    if not isinstance(getattr(writer, "model", None), EndpointLanguageModel):
        return draw_prompts(writer, prompts, drafts, store, progress)
    # What an endpoint samples depends on how many are asked for together. Of a request for all, a
    # kill could keep some; asked for alone, the others would be other texts.
    replies: list[dict[int, Sample | NotDrawn]] = [{} for _ in prompts]
    for number in range(drafts):
        drawn = draw_prompts(writer, prompts, [[number]] * len(prompts), store, progress)
        for samples, more in zip(replies, drawn, strict=True):
            samples.update(more)
    return replies


def side_prompts(subject: WriterSubject, words: tuple[int, int]) -> tuple[Messages, Messages]:
    """Return what is asked for the chosen and for the rejected answer."""
    question, titles, parts = subject.question, subject.chosen_titles, subject.chosen_parts
    chosen = writer_prompt(question, titles, parts, words=words)
    if subject.violate:
        return chosen, writer_prompt(question, titles, parts, words=words, against=True)
    titles, parts = subject.rejected_titles, subject.rejected_parts
    return chosen, writer_prompt(question, titles, parts, words=words)


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
