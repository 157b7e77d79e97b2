"""Requests to write of a user or to read what they expect, and how replies are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from palate.prompts.judging import Unreadable, without_thought
from palate.prompts.rendering import about, as_text, quoted, render_text, user_message
from palate.prompts.wording import WORDS, Wording, question_slots
from palate.records import Choice, Messages, Part
from palate.words import ENDS

ITEM = re.compile(
    r"\s*(?:[-*+–—]\s+|[•・]\s*|\(?\d{1,2}(?:[.):]\s+|[、．](?!\d)\s*))(?P<text>\S.*)"
)
NOTHING = re.compile(r"[\s\"'`*_-]*none[\s\"'`*_.-]*", re.IGNORECASE)
END = re.compile(rf"(?:[.!?…](?=[\s\"')\]”’]|\Z)|[{ENDS}])[\"')\]”’」』）]*")
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


def persona_prompt(parts: Sequence[Part], wording: Wording = WORDS["persona"]) -> Messages:
    """Return what is asked for a description of a user, from their choices or posts."""
    choices = any(part.kind == "example" for part in parts)
    return wording.messages(parts=quoted(tuple(parts)), choices=choices)


def plan_prompt(question: str, parts: Sequence[Part], wording: Wording = WORDS["plan"]) -> Messages:
    """Return what a planner is asked: which aspects this user expects of an answer."""
    return wording.messages(**question_slots(question, tuple(parts)))


def reader_prompt(question: str, sentences: Sequence[str], of: SentencesOf) -> Messages:
    """Return what is asked for a user's aspects, from sentences that are numbered from 1."""
    lines = [" ".join(sentence.split()) for sentence in sentences]
    return user_message("reader.jinja", question=question, sentences=lines, of=of)


def writer_prompt(
    question: str,
    titles: Iterable[str],
    parts: Sequence[Part] = (),
    *,
    words: tuple[int, int],
    against: bool = False,
) -> Messages:
    """Return what is asked for an answer that follows these aspects, or goes `against` them."""
    listed, (low, high) = [" ".join(title.split()) for title in titles], words
    slots = {"titles": listed, "low": low, "high": high, "against": against}
    return user_message("writer.jinja", about=about(question, tuple(parts)), **slots)


def example_text(choice: Choice) -> str:
    """Return a past choice as one text: what was asked, chosen, and not chosen.

    >>> print(example_text(Choice(question="Tea?", chosen="Yes,\\nstrong.", rejected="No.")))
    Question:
      Tea?
    Chosen:
      Yes,
      strong.
    Not chosen:
      No.
    """
    both = {"chosen": choice.chosen, "rejected": choice.rejected}
    return render_text("example.jinja", question=as_text(choice.messages), **both)


def trait_text(name: str, value: str) -> str:
    """Return what a user said of themselves as one line.

    >>> trait_text("home town", "Sankt\\nPeter")
    'home town: Sankt Peter'
    """
    return render_text("trait.jinja", name=" ".join(name.split()), value=" ".join(value.split()))


def plan_text(aspects: Iterable[str]) -> str:
    """Return aspects as a bullet list: how a plan is shown, and what a planner is trained to write.

    >>> plan_text(["Strong tea", "No milk"])
    '- Strong tea\\n- No milk'
    """
    return "\n".join(f"- {' '.join(aspect.split())}" for aspect in aspects)


def parse_persona(reply: str, *, cut_off: bool = False) -> str:
    """Read a description; one that was cut off ends with its last whole sentence, if it has one.

    Raises `Unreadable` where nothing was written.

    >>> parse_persona("Likes tea. Hates milk. And of", cut_off=True)
    'Likes tea. Hates milk.'
    """
    text = without_thought(reply)
    if not text:
        raise Unreadable("unreadable: empty reply")
    if cut_off:
        ends = [match.end() for match in END.finditer(text)]
        text = text[: ends[-1]] if ends else text
    return text


def parse_plan(reply: str, *, cut_off: bool = False) -> tuple[str, ...]:
    """Read a list of aspects, bulleted or numbered; what stands before and after it is no part.

    An indented line goes on with the item above it. The one word "none" is an empty plan; the last
    item of a reply that was cut off is left out, and of items that say the same the first is kept.
    Raises `Unreadable` where there is no list.

    >>> parse_plan("Sure:\\n1. **Strong** tea\\n2) No milk\\n   at all\\n\\nThat is all.")
    ('Strong tea', 'No milk at all')
    """
    text = without_thought(reply)
    if NOTHING.fullmatch(text):
        return ()
    items: list[str] = []
    open_item = False
    for line in text.splitlines():
        if item := ITEM.fullmatch(line):
            items.append(item["text"])
            open_item = True
        elif open_item and line[:1].isspace() and line.strip():
            items[-1] += f" {line.strip()}"
        else:
            open_item = False
    if not items:
        raise Unreadable("unreadable: no list" if text else "unreadable: empty reply")
    if cut_off and open_item:
        items.pop()
    aspects: dict[str, str] = {}
    for text in items:
        if plain := " ".join(text.replace("**", "").replace("__", "").split()):
            aspects.setdefault(plain.casefold(), plain)
    return tuple(aspects.values())


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
