"""The question to a judge, and how its reply is read: strictly, or not at all."""

from __future__ import annotations

import re
from typing import Literal

from palate.marks import OpenThought, after_thought
from palate.prompts.rendering import about, as_text, render_text
from palate.records import Message, Slate

Form = Literal["text", "letter"]
Letter = Literal["A", "B", "tie"]

VERDICT = re.compile(
    r"[\s*_#>`]*(?:final\s+)?verdict\s*[*_]*\s*:\s*[*_`\[( ]*(A|B|tie)[*_`\]). ]*\Z", re.I
)
RATING = re.compile(
    r"[\s*_#>`]*(?:final\s+)?rating\s*[*_]*\s*:\s*[*_`\[( ]*(\d{1,3})[*_`\]). ]*\Z", re.I
)


class Unreadable(ValueError):
    """A reply that holds no verdict in the asked form; the message is the reason."""


def pair_prompt(slate: Slate, first: int, second: int, form: Form) -> tuple[Message, ...]:
    """Return the pairwise prompt with these two candidates as A and B.

    Raises `UsageError` for a slate with one candidate.
    """
    slate.need_two()
    text = render_text(
        "judge.jinja",
        about=about(as_text(slate.question), slate.shown),
        shown=bool(slate.shown),
        first=slate.candidates[first],
        second=slate.candidates[second],
        form=form,
    )
    return (Message(role="user", content=text),)


def rating_prompt(
    slate: Slate, position: int, form: Form, low: int, high: int
) -> tuple[Message, ...]:
    """Return the pointwise prompt for one candidate."""
    text = render_text(
        "rating.jinja",
        about=about(as_text(slate.question), slate.shown),
        shown=bool(slate.shown),
        response=slate.candidates[position],
        form=form,
        low=low,
        high=high,
    )
    return (Message(role="user", content=text),)


def without_thought(reply: str) -> str:
    """Strip what was thought before the reply; a thought that never closes is unreadable.

    >>> without_thought("<think>A? B!</think>Verdict: B")
    'Verdict: B'
    """
    try:
        return after_thought(reply)
    except OpenThought as error:
        raise Unreadable(f"unreadable: {error}") from error


def parse_verdict(reply: str) -> Letter:
    """Read the last line as a verdict; raises `Unreadable` for anything else.

    >>> parse_verdict("B is livelier.\\n**Verdict: B**")
    'B'
    """
    found = _last_line(reply, VERDICT, "verdict")
    return "tie" if found.lower() == "tie" else "A" if found.upper() == "A" else "B"


def parse_rating(reply: str, low: int, high: int) -> int:
    """Read the last line as a rating within the scale; raises `Unreadable` for anything else.

    >>> parse_rating("Warm and exact.\\nRating: 7", 1, 9)
    7
    """
    number = int(_last_line(reply, RATING, "rating"))
    if not low <= number <= high:
        raise Unreadable(f"unreadable: rating {number} is outside {low} to {high}")
    return number


def _last_line(reply: str, pattern: re.Pattern[str], what: str) -> str:
    lines = [line for line in without_thought(reply).splitlines() if line.strip(" \t*_`#>")]
    if not lines:
        raise Unreadable("unreadable: empty reply")
    found = [match.group(1) for line in lines if (match := pattern.match(line))]
    if not pattern.match(lines[-1]):
        raise Unreadable(f"unreadable: the last line is no {what}")
    if len({answer.lower() for answer in found}) > 1:
        raise Unreadable(f"unreadable: more than one {what}")
    return found[-1]
