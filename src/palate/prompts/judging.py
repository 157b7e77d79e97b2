"""The question to a judge, and how its reply is read: strictly, or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Literal

from palate.marks import OpenThought, after_thought
from palate.prompts.rendering import as_text, user_message
from palate.prompts.wording import WORDS, Wording, question_slots
from palate.records import Messages, RubricAspect, Slate

Form = Literal["text", "letter"]
Letter = Literal["A", "B", "tie"]

VERDICT = re.compile(
    r"[\s*_#>`]*(?:final\s+)?verdict\s*[*_]*\s*:\s*[*_`\[( ]*(A|B|tie)[*_`\]). ]*\Z", re.I
)
RATING = re.compile(
    r"[\s*_#>`]*(?:final\s+)?rating\s*[*_]*\s*:\s*[*_`\[( ]*(\d{1,3})[*_`\]). ]*\Z", re.I
)
NUMBER = re.compile(r"\d+(?:\.\d+)?")


class Unreadable(ValueError):
    """A reply that holds no verdict in the asked form; the message is the reason."""


def pair_prompt(
    slate: Slate, first: int, second: int, form: Form, wording: Wording = WORDS["judge"]
) -> Messages:
    """Return the prompt with these two as A and B; raises `UsageError` for one candidate alone."""
    slate.need_two()
    two = {"first": slate.candidates[first], "second": slate.candidates[second]}
    return wording.messages(**_slate_slots(slate), **two, form=form)


def rating_prompt(
    slate: Slate, position: int, form: Form, low: int, high: int, wording: Wording = WORDS["rating"]
) -> Messages:
    """Return the pointwise prompt for one candidate."""
    slots = {"response": slate.candidates[position], "form": form, "low": low, "high": high}
    return wording.messages(**_slate_slots(slate), **slots)


def _slate_slots(slate: Slate) -> dict[str, object]:
    return question_slots(as_text(slate.question), slate.shown) | {"shown": bool(slate.shown)}


def without_thought(reply: str) -> str:
    """Strip what was thought before the reply; a thought that never closes is unreadable.

    >>> without_thought("<think>A? B!</think>Verdict: B")
    'Verdict: B'
    """
    try:
        return after_thought(reply)
    except OpenThought as error:
        raise Unreadable(f"unreadable: {error}") from error


def label_line(reply: str, what: str) -> str:
    """Return a reply that is a JSON object as the line of its label; any other as it is.

    >>> label_line('{"reason": "B is livelier.", "verdict": "B"}', "verdict")
    'verdict: B'
    """
    try:
        pairs = json.loads(without_thought(reply), object_pairs_hook=list)
        (value,) = [value for name, value in pairs if name == what]
    except (ValueError, TypeError, RecursionError):
        return reply
    return f"{what}: {value}"


def parse_verdict(reply: str) -> Letter:
    """Read the last line as a verdict; raises `Unreadable` for anything else.

    >>> parse_verdict("B is livelier.\\n**Verdict: B**")
    'B'
    """
    answer = _last_line(reply, VERDICT, "verdict").upper()
    return "tie" if answer == "TIE" else "A" if answer == "A" else "B"


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
    answers = [match[1] for line in lines if (match := pattern.match(line))]
    if not pattern.match(lines[-1]):
        raise Unreadable(f"unreadable: the last line is no {what}")
    if len({answer.lower() for answer in answers}) > 1:
        raise Unreadable(f"unreadable: more than one {what}")
    return answers[-1]


def aspect_prompt(
    question: str,
    narrative: str | None,
    response: str,
    aspect: RubricAspect,
    form: Form,
    wording: Wording = WORDS["rubric-judge"],
) -> Messages:
    """Return the prompt for one aspect; the reply is read by `parse_rating(reply, 0, 2)`."""
    return wording.messages(
        question=question,
        narrative=(narrative or "").strip(),
        response=response,
        aspect=aspect.aspect,
        reason=aspect.reason.strip(),
        evidence=aspect.evidence.strip(),
        form=form,
    )


def titles_prompt(question: str, response: str, titles: Iterable[str]) -> Messages:
    """Return the prompt for all aspects at once, by their titles alone."""
    joined = [" ".join(title.split()) for title in titles]
    return user_message("titles.jinja", question=question, response=response, titles=joined)


def parse_numbers(reply: str) -> tuple[float, ...]:
    """Read every number in a reply, wherever it stands: the released judge's rule, and no other's.

    Raises `Unreadable` where there is none.

    >>> parse_numbers("1. Strength: 2, 2. Milk: 2")
    (1.0, 2.0, 2.0, 2.0)
    """
    numbers = tuple(float(number) for number in NUMBER.findall(reply))
    if not numbers:
        raise Unreadable("unreadable: no number" if reply.strip() else "unreadable: empty reply")
    return numbers
