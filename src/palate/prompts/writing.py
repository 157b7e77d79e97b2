"""The request to write of a user, and how a language model's text is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from palate.prompts.judging import Unreadable, without_thought
from palate.prompts.rendering import about, as_text, render_text
from palate.records import Choice, Message, Part
from palate.words import ENDS

ITEM = re.compile(
    r"\s*(?:[-*+–—]\s+|[•・]\s*|\(?\d{1,2}(?:[.):]\s+|[、．](?!\d)\s*))(?P<text>\S.*)"
)
NOTHING = re.compile(r"[\s\"'`*_-]*none[\s\"'`*_.-]*", re.IGNORECASE)
END = re.compile(rf"(?:[.!?…](?=[\s\"')\]”’]|\Z)|[{ENDS}])[\"')\]”’」』）]*")


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
    return render_text(
        "example.jinja",
        question=as_text(choice.messages),
        chosen=choice.chosen,
        rejected=choice.rejected,
    )


def persona_prompt(parts: Sequence[Part]) -> tuple[Message, ...]:
    """Return what is asked for a description of a user, from their choices or posts."""
    ordered = sorted(parts, key=lambda part: part.rank)
    choices = any(part.kind == "example" for part in parts)
    text = render_text("persona.jinja", parts=ordered, choices=choices)
    return (Message(role="user", content=text),)


def plan_prompt(question: str, parts: Sequence[Part]) -> tuple[Message, ...]:
    """Return what a planner is asked: which aspects this user expects of an answer."""
    text = render_text("plan.jinja", about=about(question, tuple(parts)))
    return (Message(role="user", content=text),)


def plan_text(aspects: Iterable[str]) -> str:
    """Return aspects as a bullet list: how a plan is shown, and what a planner is trained to write.

    >>> plan_text(["Strong tea", "No milk"])
    '- Strong tea\\n- No milk'
    """
    return "\n".join(f"- {' '.join(aspect.split())}" for aspect in aspects)


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
        found = ITEM.fullmatch(line)
        if found:
            items.append(found["text"])
            open_item = True
        elif open_item and line[:1].isspace() and line.strip():
            items[-1] += f" {line.strip()}"
        else:
            open_item = False
    if not items:
        raise Unreadable("unreadable: no list" if text else "unreadable: empty reply")
    if cut_off and open_item:
        items.pop()
    kept: dict[str, str] = {}
    for item in items:
        plain = " ".join(item.replace("**", "").replace("__", "").split())
        if plain:
            kept.setdefault(plain.casefold(), plain)
    return tuple(kept.values())


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
