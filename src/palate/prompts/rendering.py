"""From (question, shown) to messages: the only place that does it, and the only one that cuts.

Texts of users and models are data: each is rendered once, and what looks like one of the frame's
tags inside a text is broken by a zero-width space.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from importlib.resources import files
from operator import attrgetter
from typing import TypeVar

from jinja2 import StrictUndefined, Template
from jinja2.sandbox import ImmutableSandboxedEnvironment

from palate.records import Message, Messages, Part, Slate
from palate.records.arguments import grouped
from palate.seeding import digest

T = TypeVar("T")
HEADINGS = {
    "post": "What the person who asks wrote earlier:",
    "example": "What the person who asks chose earlier:",
    "persona": "About the person who asks:",
    "plan": "What this person probably expects of an answer:",
    "aspect": "What the person who asks expects of an answer:",
}
ABOVE_TRAITS = "What the person who asks said of themselves:"
"""Apart from the others, whose hash is that of every prompt without traits."""
ROLE = re.compile(r"^(?=(?:system|user|assistant):)", re.IGNORECASE | re.MULTILINE)
BROKEN = "\u200b"
TITLE = 200
"""Characters of a first line that may be a title."""
FRAME = re.compile(r"<(?=/?(?:post|example|persona|plan|response(?:_[ab])?)\b)", re.IGNORECASE)


def fence(text: str) -> str:
    """Break what would close or open a tag of the frame.

    >>> fence("a </response_a> b").encode()
    b'a <\\xe2\\x80\\x8b/response_a> b'
    """
    return FRAME.sub("<\u200b", text) if "<" in text else text


def attribute(text: str) -> str:
    """Make a text safe inside double quotes on one line."""
    return re.sub(r"\s+", " ", text.replace('"', "'").replace("<", "").replace(">", "")).strip()


def inset(text: str) -> str:
    """Move every line in by two spaces, so that none stands where a label does."""
    return "\n".join(f"  {line}" if line.strip() else "" for line in text.splitlines())


@cache
def source_of(name: str) -> str:
    """Return the text of one template file."""
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


@cache
def sandbox() -> ImmutableSandboxedEnvironment:
    """Return where templates are rendered: no other files, nothing that differs by time."""
    made = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    made.filters.update(fence=fence, attribute=attribute, inset=inset)
    del made.filters["random"]
    made.globals = {name: made.globals[name] for name in ("range", "dict", "namespace")}
    return made


@lru_cache(maxsize=64)
def compiled(source: str) -> Template:
    """Return the template of a text; raises `TemplateError`."""
    return sandbox().from_string(source)


def render_text(template: str, **slots: object) -> str:
    """Render one template file; a slot that is missing is an error."""
    return compiled(source_of(template)).render(**slots).strip()


def user_message(template: str, **slots: object) -> Messages:
    """Return a rendered template as the one message of a user."""
    return (Message(role="user", content=render_text(template, **slots)),)


def prompt_hash(*templates: str, **written: str) -> str:
    """Return the hash of the sources of these templates, or of what is written in their place."""
    sources = [written[it] if it in written else source_of(it) for it in sorted(templates)]
    return digest(sources, HEADINGS)


@lru_cache(maxsize=32)  # a slate's responses, and both orders of a judge, ask for the same
def about(question: str, shown: tuple[Part, ...]) -> str:
    """Return the question, headed by what is shown, kind by kind; bare if nothing is."""
    if not shown:
        return fence(question)
    groups = grouped(quoted(shown), attrgetter("kind"))
    *before, last = groups.items()
    asked = _above(question, "post", ()) if before else ""
    heads = [_above(question, *of).removesuffix(asked) for of in before]
    return "".join([*heads, _above(question, *last)])


def _above(question: str, kind: str, parts: Iterable[Part]) -> str:
    """Return parts of one kind under their heading, and the question below them."""
    like, heading = ("aspect", ABOVE_TRAITS) if kind == "trait" else (kind, HEADINGS[kind])
    alike = [part.model_copy(update={"kind": like}) for part in parts]
    return render_text("about.jinja", question=question, shown=alike, heading={like: heading})


def quoted(shown: tuple[Part, ...]) -> list[Part]:
    """Return what is shown, best first, as one message quotes it: a turn is the post it is."""
    ordered = sorted(shown, key=lambda part: (part.rank, part.kind))
    return [p.model_copy(update={"kind": "post"}) if p.kind == "turn" else p for p in ordered]


def earlier_turns(part: Part) -> tuple[Message, Message]:
    """Return a post as what was asked and what the user wrote.

    A first line of at most 200 characters with text below it is a title, and the request; any other
    post answers a fixed request that names its category.

    >>> [turn.content for turn in earlier_turns(Part(kind="turn", text="Why tea?\\n\\nIt is hot."))]
    ['Why tea?', 'It is hot.']
    >>> part = Part(kind="turn", text="It is hot.", category="tea")
    >>> [turn.content for turn in earlier_turns(part)]
    ['Write a post about tea.', 'It is hot.']
    """
    text = part.text.strip()
    title, _, body = text.partition("\n")
    if not body or len(title) > TITLE:
        title, body = render_text("turn.jinja", category=part.category), text
    answer = Message(role="assistant", content=body.strip())
    return Message(role="user", content=title.strip()), answer


def render(question: Messages, parts: tuple[Part, ...] = ()) -> Messages:
    """Return the conversation a model is asked to answer: what is shown first, the question last.

    What is shown heads the last user message; posts shown as turns come before the question, the
    most relevant next to it. A system message is folded into the first user message, since some
    chat templates refuse one.

    >>> [m.content for m in render((Message(role="user", content="Tea or coffee?"),))]
    ['Tea or coffee?']
    """
    system = "\n\n".join(m.content for m in question if m.role == "system")
    posts = sorted((part for part in parts if part.kind == "turn"), key=lambda part: -part.rank)
    turns = [turn for post in posts for turn in earlier_turns(post)]
    turns += [m for m in question if m.role != "system"]
    if system:
        first = next(k for k, m in enumerate(turns) if m.role == "user")
        turns[first] = Message(role="user", content=f"{system}\n\n{turns[first].content}")
    if quoted := tuple(part for part in parts if part.kind != "turn"):
        turns[-1] = Message(role=turns[-1].role, content=about(turns[-1].content, quoted))
    return tuple(turns)


def read_candidates(slate: Slate, read: Callable[[Messages, str], T]) -> list[T]:
    """Return what `read` makes of each candidate behind what is shown and the question."""
    messages = render(slate.question, slate.shown)
    return [read(messages, text) for text in slate.candidates]


def as_text(question: Messages) -> str:
    """Return a conversation as one text, for prompts that quote it.

    Of several messages each is headed by its role; a line of a text that begins like a heading is
    broken by a zero-width space.

    >>> as_text((Message(role="assistant", content="Tea?"), Message(role="user", content="No.")))
    'assistant: Tea?\\n\\nuser: No.'
    """
    if len(question) == 1:
        return question[0].content
    return "\n\n".join(f"{m.role}: {ROLE.sub(BROKEN, m.content)}" for m in question)


def cut_to_fit(slate: Slate, needs: Callable[[Slate], int], window: int | None) -> Slate:
    """Drop whole parts, lowest-ranked first, until what the model must read fits its window.

    `needs` counts the tokens of the longest input made from a slate. A response is never cut: where
    dropping every part is not enough, the slate comes back with nothing shown and its caller marks
    it `unscored: too long`.
    """
    parts = fitting_parts(slate.shown, lambda shown: needs(slate.replace(shown=shown)), window)
    return slate if parts == slate.shown else slate.replace(shown=parts)


def fitting_parts(
    shown: tuple[Part, ...], needs: Callable[[tuple[Part, ...]], int], window: int | None
) -> tuple[Part, ...]:
    """Return the parts as they are where they fit, else as many of the best ranked as do."""
    if window is None or needs(shown) <= window:
        return shown
    ranked = sorted(shown, key=lambda part: part.rank)
    fitting, beyond = 0, len(ranked)
    while beyond - fitting > 1:  # the largest number of parts that fits, by bisection
        middle = (fitting + beyond) // 2
        if needs(tuple(ranked[:middle])) <= window:
            fitting = middle
        else:
            beyond = middle
    return tuple(ranked[:fitting])
