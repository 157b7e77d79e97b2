"""The question to a judge about one response and the rubric of its question."""

from __future__ import annotations

import re
from collections.abc import Iterable

from palate.prompts.judging import Form, Unreadable
from palate.prompts.rendering import render_text
from palate.records import Message, RubricAspect

NUMBER = re.compile(r"\d+(?:\.\d+)?")


def aspect_prompt(
    question: str, narrative: str | None, response: str, aspect: RubricAspect, form: Form
) -> tuple[Message, ...]:
    """Return the prompt for one aspect; the reply is read by `parse_rating(reply, 0, 2)`."""
    text = render_text(
        "aspect.jinja",
        question=question,
        narrative=(narrative or "").strip(),
        response=response,
        aspect=aspect.aspect,
        reason=aspect.reason.strip(),
        evidence=aspect.evidence.strip(),
        form=form,
    )
    return (Message(role="user", content=text),)


def titles_prompt(question: str, response: str, titles: Iterable[str]) -> tuple[Message, ...]:
    """Return the prompt for all aspects at once, by their titles alone."""
    joined = [" ".join(title.split()) for title in titles]
    text = render_text("titles.jinja", question=question, response=response, titles=joined)
    return (Message(role="user", content=text),)


def parse_numbers(reply: str) -> tuple[float, ...]:
    """Read every number in a reply, wherever it stands: the released judge's rule, and no other's.

    Raises `Unreadable` where there is none.

    >>> parse_numbers("1. Strength: 2, 2. Milk: 2")
    (1.0, 2.0, 2.0, 2.0)
    """
    found = tuple(float(number) for number in NUMBER.findall(reply))
    if not found:
        raise Unreadable("unreadable: no number" if reply.strip() else "unreadable: empty reply")
    return found
