"""The words of a prompt: the shipped template's, or those of a file that a spec names.

A file is tried once with planted texts: what it leaves out, or cannot render, is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, get_args

from jinja2 import TemplateError, TemplateSyntaxError, meta

from palate.errors import UsageError, first_line
from palate.prompts.rendering import (
    about,
    compiled,
    prompt_hash,
    quoted,
    sandbox,
    source_of,
)
from palate.records import Message, Messages, Part, PartKind
from palate.specs import SpecFile

KINDS = [kind for kind in get_args(PartKind) if kind != "turn"]
LABEL = re.compile(r"(?<![A-Za-z0-9])(?:[AB]|(?<=_)[ab])(?![A-Za-z0-9])")
"""`A`, `[B]` and `response_a`; the article "a" is none."""
PLANTED_WORDS = 4000
"""Of a planted text: longer than what a template may be thought to cut off."""
Slots = dict[str, object]
SLATE = "about question parts shown"


class Prompt(NamedTuple):
    """One kind of prompt: its template, another whose words it holds, what a reply begins with."""

    template: str
    beside: str
    label: str
    variables: str


PROMPTS = {
    "judge": Prompt("judge", "about", "Verdict", f"{SLATE} first second form"),
    "rating": Prompt("rating", "about", "Rating", f"{SLATE} response form low high"),
    "rubric-judge": Prompt(
        "aspect", "", "Rating", "question narrative response aspect reason evidence form"
    ),
    "persona": Prompt("persona", "example", "", "parts choices"),
    "plan": Prompt("plan", "about", "", "about question parts"),
}
"""Prompts whose words may be a file's, by the kind of scorer, metric or context."""
VARIABLES = {
    "about": "the question, headed by all that is shown of the user",
    "question": "the question alone",
    "parts": "what is shown of the user, best first; each has .kind .category .text .rank",
    "shown": "whether anything is shown of the user",
    "choices": "whether the parts are past choices, and no posts",
    "first": "the response that is A: in the other order, the other one",
    "second": "the response that is B",
    "response": "the response",
    "narrative": "what the user wrote about the question, or nothing",
    "aspect": "what the user expects",
    "reason": "why it matters to them, or nothing",
    "evidence": "where they said so, or nothing",
    "form": "text: a line `Verdict: A` or `Rating: N` ends the reply; letter: a letter or digit",
    "low": "the lowest rating",
    "high": "the highest rating",
}
WHOLE = ("question", "first", "second", "response", "aspect")
"""Variables that stand whole in every prompt that has them."""


def question_slots(question: str, shown: tuple[Part, ...]) -> Slots:
    """Return the variables of a question and of what is shown of the user."""
    return {"about": about(question, shown), "question": question, "parts": quoted(shown)}


@dataclass(frozen=True)
class Wording:
    """The template of one kind of prompt: a file's, or the shipped one."""

    kind: str
    file: SpecFile | None = None

    @classmethod
    def of(cls, kind: str, file: SpecFile | None, **reply: object) -> Wording:
        """Return the words that a spec asks for.

        `reply` is how one is asked for: `form`, and `low` and `high` of a scale. Raises
        `SpecError` for a file that leaves out what a prompt has to hold, or cannot be rendered.
        """
        made = cls(kind, file)
        if file is not None:
            _check_source(kind, file)
            _check_prompts(made, file, {"form": "text", **reply})
        return made

    @property
    def source(self) -> str:
        """The template's text."""
        return self.file.text if self.file else source_of(f"{PROMPTS[self.kind].template}.jinja")

    @property
    def hash(self) -> str:
        """Hash of the words that a prompt may hold beside its texts."""
        names = [f"{name}.jinja" for name in PROMPTS[self.kind][:2] if name]
        return prompt_hash(*names, **{names[0]: self.source})

    def messages(self, **slots: object) -> Messages:
        """Return the prompt as a user's one message; raises `SpecError` where the file fails."""
        try:
            text = compiled(self.source).render(slots).strip()
        except Exception as error:
            if self.file is None:
                raise
            raise self.file.error(f"fails: {first_line(error)}") from error
        return (Message(role="user", content=text),)


WORDS = {kind: Wording(kind) for kind in PROMPTS}
"""The shipped ones."""


def described(kind: str) -> str:
    """Return a shipped template below its variables; raises `UsageError` for a kind without one."""
    if kind not in PROMPTS:
        raise UsageError(f"--template {kind}: no such prompt; it is one of {', '.join(PROMPTS)}")
    lines = [f"    {name:<9}  {VARIABLES[name]}" for name in PROMPTS[kind].variables.split()]
    filters = "    Filters: `fence` breaks tags of a text, `inset` indents its lines."
    return "\n".join((f"{{#- Variables of {kind}:", *lines, f"{filters} -#}}", WORDS[kind].source))


def _check_source(kind: str, file: SpecFile) -> None:
    names = PROMPTS[kind].variables.split()
    try:
        tree = sandbox().parse(file.text)
        compiled(file.text)
    except TemplateError as error:
        where = f"line {error.lineno}: " if isinstance(error, TemplateSyntaxError) else ""
        raise file.error(f"{where}{first_line(error)}") from error
    if [*meta.find_referenced_templates(tree)]:
        raise file.error("includes, imports or extends another file; write all in one")
    if unknown := sorted(meta.find_undeclared_variables(tree) - {*names, *sandbox().globals}):
        known = ", ".join(names)
        raise file.error(f"reads {unknown[0]!r}, which a {kind} has not; it has {known}")


def _check_prompts(wording: Wording, file: SpecFile, reply: Slots) -> None:
    names, label = PROMPTS[wording.kind].variables.split(), PROMPTS[wording.kind].label
    texts = {name: _planted(name) for name in names}
    parts = tuple(Part(kind=kind, text=_planted(kind)) for kind in KINDS)
    for showing in (parts, parts[:1], ()) if "shown" in names else (parts,):
        slots = {**texts, **question_slots(texts.get("question", ""), showing), **reply}
        slots |= {"shown": bool(showing), "choices": False}
        slots = {name: slots[name] for name in names}
        text = _flat(wording.messages(**slots)[0].content)
        needed = {texts[name]: f"`{name}`, {VARIABLES[name]}" for name in WHOLE if name in names}
        if "parts" in names:
            needed |= {it.text: f"a shown {it.kind} of the user (in `parts`)" for it in showing}
        needed = {_flat(planted): what for planted, what in needed.items()}
        for planted, what in needed.items():
            if planted not in text:
                raise file.error(f"leaves out {what}, or a piece of it")
        if "first" in names:
            text = _without_labels(wording, file, text, slots)
        for planted in needed:
            text = text.replace(planted, "…")
        written = re.search(rf"{label}\s*[*_]*\s*:", text, re.IGNORECASE)
        if label and reply["form"] == "text" and not written:
            raise file.error(f"does not ask for a line `{label}: …`, all that is read of it")
        ends = ("A", "B") if "first" in names else (reply["low"], reply["high"]) if label else ()
        for it in ends:
            if not re.search(rf"(?<!\w){it}(?!\w)", text):
                raise file.error(f"does not say that a reply may name {it}")


def _without_labels(wording: Wording, file: SpecFile, text: str, slots: Slots) -> str:
    # Raises unless the responses stand under A and B, in either order.
    first, second = _flat(_planted("first")), _flat(_planted("second"))
    other = text.replace(first, "\0").replace(second, first).replace("\0", second)
    swapped = wording.messages(**{**slots, "first": slots["second"], "second": slots["first"]})
    if _flat(swapped[0].content) != other:
        raise file.error(
            "shows the responses in one order only: with `first` and `second` exchanged, they have "
            "to change places, and nothing else may"
        )
    for name, planted, label in (("first", first, "A"), ("second", second, "B")):
        before = [*LABEL.finditer(text, 0, text.index(planted))]
        if not before or before[-1][0].upper() != label:
            raise file.error(f"shows `{name}` without {label} before it, as in `Answer {label}:`")
        text = text[: before[-1].start()] + text[before[-1].end() :]
    return text


@cache
def _planted(name: str) -> str:
    """Return a long text of many lines, with marks that a filter would change, and no label."""
    body = "\n\n".join(f"{name}{k}, tea" for k in range(PLANTED_WORDS))
    return f'{name}-begins: <i>tea</i> & "milk", it\'s {{{{ hot }}}}.\n{body}\n{name}-ends'


def _flat(text: str) -> str:
    return " ".join(text.split())
