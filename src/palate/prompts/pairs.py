"""Requests to read what a user expects, and to write answers to it; how what was read is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from palate.prompts.judging import Unreadable, without_thought
from palate.prompts.rendering import about, render_text
from palate.prompts.writing import NOTHING
from palate.records import Message, Part

SentencesOf = Literal["narrative", "posts"]

LABELS = ("aspect", "reason", "sentences")
_LABELLED = re.compile(
    r"[\s*_#>`+•-]*(?:\d{1,2}[.)]\s*)?[*_]*(aspect|reason|sentence)s?(?: \d{1,2})?[*_]*\s*"
    r"[:：]\s*[*_]*\s*(?P<text>\S.*?)\s*[*_]*",
    re.IGNORECASE,
)
_SPAN = r"\[?\d{1,6}\]?(?:\s*[-–]\s*\[?\d{1,6}\]?)?"
_NUMBERS = re.compile(rf"\[?{_SPAN}(?:\s*(?:[,;，、]|,?\s*\band\b|&)\s*{_SPAN})*\]?\.?")


class ReadAspect(NamedTuple):
    """An aspect as a reader names it."""

    title: str
    reason: str
    numbers: tuple[int, ...]
    """Of the sentences that show it, from 1, in their order."""


def reader_prompt(question: str, sentences: Sequence[str], of: SentencesOf) -> tuple[Message, ...]:
    """Return what is asked for a user's aspects, from sentences that are numbered from 1."""
    lines = [" ".join(sentence.split()) for sentence in sentences]
    text = render_text("reader.jinja", question=question, sentences=lines, of=of)
    return (Message(role="user", content=text),)


def parse_aspects(reply: str, n: int) -> tuple[ReadAspect, ...]:
    r"""Read aspects of n numbered sentences; the one word "none" is no aspect.

    Each has three lines, `Aspect:`, `Reason:` and `Sentences:`; only before the first may anything
    else stand. Raises `Unreadable`: unreadable, no aspect, or number out of range.

    >>> parse_aspects("Aspect: No milk\nReason: They cannot drink it.\nSentences: 1, 3-4", 4)
    (ReadAspect(title='No milk', reason='They cannot drink it.', numbers=(1, 3, 4)),)
    >>> parse_aspects("none", 4)
    ()
    """
    text = without_thought(reply)
    if NOTHING.fullmatch(text):
        return ()
    pieces: list[tuple[str, str]] = []
    for line in text.splitlines():
        if match := _LABELLED.fullmatch(line):
            label = match[1].lower()
            pieces.append(("sentences" if label == "sentence" else label, match["text"]))
        elif pieces and line.strip():
            raise Unreadable("unreadable: a line without a label")
    if not pieces:
        raise Unreadable("no aspect" if text else "unreadable: empty reply")
    if tuple(label for label, _ in pieces) != LABELS * (len(pieces) // 3):
        raise Unreadable("unreadable: not three lines an aspect")
    texts = [" ".join(text.replace("**", "").split()) for _, text in pieces]
    listed = zip(texts[::3], texts[1::3], texts[2::3], strict=True)
    aspects = tuple(ReadAspect(title, why, _numbers(last, n)) for title, why, last in listed)
    if len({aspect.title.casefold() for aspect in aspects}) < len(aspects):
        raise Unreadable("unreadable: an aspect is there twice")
    return aspects


def _numbers(text: str, n: int) -> tuple[int, ...]:
    if not _NUMBERS.fullmatch(text):
        raise Unreadable("unreadable: no list of numbers")
    numbers: set[int] = set()
    for span in re.findall(_SPAN, text):
        first, *rest = (int(number) for number in re.findall(r"\d+", span))
        last = rest[0] if rest else first
        if not 1 <= first <= last <= n:
            raise Unreadable("number out of range")
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))


def writer_prompt(
    question: str,
    titles: Iterable[str],
    parts: Sequence[Part] = (),
    *,
    words: tuple[int, int],
    against: bool = False,
) -> tuple[Message, ...]:
    """Return what is asked for an answer of so many words that follows these aspects.

    With `against` it goes against them; no more than a line of the prompt is then another.
    """
    text = render_text(
        "writer.jinja",
        about=about(question, tuple(parts)),
        titles=[" ".join(title.split()) for title in titles],
        low=words[0],
        high=words[1],
        against=against,
    )
    return (Message(role="user", content=text),)
