"""The words of a prompt: the shipped template's, or those of a file that a spec names.

A file is tried once with planted texts: what it leaves out, or cannot render, is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from palate.errors import UsageError, first_line
from palate.prompts.rendering import (
    FILTERS,
    HEADINGS,
    Messages,
    about,
    prompt_hash,
    quoted,
    source_of,
)
from palate.records import Message, Part
from palate.specs import SpecFile

GLOBALS = ("range", "dict", "namespace")
"""Of Jinja's own functions, those that give the same every time."""
LABEL = re.compile(r"(?<![A-Za-z0-9])(?:[AB]|(?<=_)[ab])(?![A-Za-z0-9])")
"""`A`, `[B]` and `response_a`; the article "a" is none."""
PLANTED_WORDS = 4000
"""Of a planted text: longer than what a template may be thought to cut off."""
QUESTION = {
    "about": "the question, headed by all that is shown of the user",
    "question": "the question alone",
    "parts": "what is shown of the user, best first: each has .kind, .category, .text and .rank",
}
SHOWN = {**QUESTION, "shown": "whether anything is shown of the user"}
VERDICT_FORM = "text: the reply ends with `Verdict: A` or `Verdict: B`; letter: it is one letter"
RATING_FORM = "text: the reply ends with `Rating: N`; letter: it is one digit"


class Prompt(NamedTuple):
    """One kind of prompt: its template and what that reads."""

    template: str
    variables: Mapping[str, str]
    """Names, and what each holds."""
    whole: tuple[str, ...]
    """Variables whose texts have to stand in every prompt."""
    beside: tuple[str, ...] = ()
    """Other templates whose words are in the prompt."""
    label: str = ""
    """What the line begins with that is read of a reply."""


PROMPTS = {
    "judge": Prompt(
        "judge.jinja",
        {
            **SHOWN,
            "first": "the response that is A; the other order has the other one here",
            "second": "the response that is B",
            "form": VERDICT_FORM,
        },
        ("question", "first", "second"),
        ("about.jinja",),
        "verdict",
    ),
    "rating": Prompt(
        "rating.jinja",
        {
            **SHOWN,
            "response": "the response",
            "form": RATING_FORM,
            "low": "the lowest rating",
            "high": "the highest rating",
        },
        ("question", "response"),
        ("about.jinja",),
        "rating",
    ),
    "rubric-judge": Prompt(
        "aspect.jinja",
        {
            "question": "the question",
            "narrative": "what the user wrote about it; may be empty",
            "response": "the response",
            "aspect": "what the user expects",
            "reason": "why it matters to them; may be empty",
            "evidence": "where they said so; may be empty",
            "form": RATING_FORM,
        },
        ("question", "response", "aspect"),
        (),
        "rating",
    ),
    "persona": Prompt(
        "persona.jinja",
        {"parts": QUESTION["parts"], "choices": "whether the parts are past choices, not posts"},
        (),
        ("example.jinja",),
    ),
    "plan": Prompt("plan.jinja", QUESTION, ("question",), ("about.jinja",)),
}
"""Prompts whose words may be a file's, by the kind of scorer, metric or context."""


def question_slots(question: str, shown: tuple[Part, ...]) -> dict[str, object]:
    """Return the variables of a question and of what is shown of the user."""
    parts = quoted(shown)
    return {"about": about(question, shown), "question": question, "parts": parts}


@dataclass(frozen=True)
class Wording:
    """The template of one kind of prompt."""

    kind: str
    source: str
    file: SpecFile | None = None
    """None where it is the shipped one."""

    @classmethod
    def of(cls, kind: str, file: SpecFile | None = None, **asked: object) -> Wording:
        """Return the words that a spec asks for: a file's, or the shipped ones.

        `asked` is how a reply is asked for: `form`, and `low` and `high` of a scale. Raises
        `SpecError` for a file that leaves out what a prompt has to hold, or cannot be rendered.
        """
        if file is None:
            return _shipped(kind)
        made = cls(kind, file.text, file)
        made._read()
        _Probe(made, {"form": "text", "low": 0, "high": 0, **asked}).check()
        return made

    @property
    def prompt(self) -> Prompt:
        """What this kind of prompt reads."""
        return PROMPTS[self.kind]

    @property
    def hash(self) -> str:
        """Hash of all words that a prompt may have of palate's, or of the file in their place."""
        name = self.prompt.template.removesuffix(".jinja")
        return prompt_hash(self.prompt.template, *self.prompt.beside, **{name: self.source})

    def messages(self, **slots: object) -> Messages:
        """Return the prompt as the one message of a user.

        Raises `SpecError` where a file fails on these texts.
        """
        return (Message(role="user", content=self.render(slots)),)

    def render(self, slots: Mapping[str, object], when: str = "") -> str:
        """Return the prompt's text; raises as `messages` does."""
        try:
            return _compiled(self.source).render(slots).strip()
        except Exception as error:
            if self.file is None:
                raise
            raise self.error(f"fails{when}: {first_line(error)}") from error

    def error(self, problem: str) -> UsageError:
        """Return the error that names the file."""
        assert self.file is not None
        return self.file.error(problem)

    def _read(self) -> None:
        # Raises for what shows without rendering.
        environment = _sandbox()
        try:
            tree = environment.parse(self.source)
            _compiled(self.source)
        except TemplateSyntaxError as error:
            raise self.error(f"line {error.lineno}: {error.message}") from error
        except TemplateError as error:
            raise self.error(first_line(error)) from error
        if next(meta.find_referenced_templates(tree), self) is not self:
            raise self.error("includes, imports or extends another file; write it in one")
        known = self.prompt.variables.keys() | environment.globals.keys()
        if unknown := sorted(meta.find_undeclared_variables(tree) - known):
            names = ", ".join(self.prompt.variables)
            raise self.error(
                f"reads {unknown[0]!r}, which {self.kind} does not have (it has {names})"
            )


@cache
def _shipped(kind: str) -> Wording:
    return Wording(kind, source_of(PROMPTS[kind].template))


@cache
def _sandbox() -> ImmutableSandboxedEnvironment:
    # No loader, no reach beyond the variables, and nothing that differs from one time to the next.
    made = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    made.filters.update(FILTERS)
    del made.filters["random"]
    made.globals = {name: made.globals[name] for name in GLOBALS}
    return made


@lru_cache(maxsize=32)
def _compiled(source: str) -> Template:
    return _sandbox().from_string(source)


def described(kind: str) -> str:
    """Return a shipped template below a comment of its variables: a file to start from.

    Raises `UsageError` for a kind that has none.
    """
    if kind not in PROMPTS:
        raise UsageError(f"--template {kind}: no such prompt; it is one of {', '.join(PROMPTS)}")
    variables = PROMPTS[kind].variables
    width = max(map(len, variables))
    lines = [f"    {name:<{width}}  {what}" for name, what in variables.items()]
    filters = (
        "    Filters: fence breaks a text's tags, inset moves its lines in, attribute quotes it."
    )
    head = "\n".join((f"{{#- Variables of {kind}:", *lines, filters))
    return f"{head} -#}}\n{_shipped(kind).source}"


class _Probe:
    """Planted texts, and what a file makes of them."""

    def __init__(self, wording: Wording, asked: Mapping[str, object]) -> None:
        self.wording, self.prompt, self.asked = wording, wording.prompt, asked
        self.texts = {name: _planted(name) for name in self.prompt.variables}
        self.parts = tuple(
            Part(kind=kind, text=_planted(kind), category=f"of-{kind}", rank=rank)
            for rank, kind in enumerate(HEADINGS)
        )

    def check(self) -> None:
        """Raise `SpecError` for the first thing that a prompt has to hold and does not."""
        for when, slots, shown in self._situations():
            text = _plain(self.wording.render(slots, when))
            self._holds(text, when, shown)
            if "first" in slots:
                text = self._without_labels(text, slots, when)
            for planted in (*self.texts.values(), *(part.text for part in self.parts)):
                text = text.replace(_plain(planted), " … ")
            self._asks(text)

    def _situations(self) -> Iterator[tuple[str, dict[str, object], tuple[Part, ...]]]:
        # (when, variables, what is shown)
        variables = self.prompt.variables
        situations: dict[str, tuple[Part, ...]] = {}
        if "parts" in variables:
            situations = {" with all kinds of parts": self.parts, " with one post": self.parts[:1]}
        if "shown" in variables:
            situations[" with nothing shown"] = ()
        if "narrative" in variables:
            situations = {"": (), " where narrative, reason and evidence are empty": ()}
        for when, shown in situations.items():
            slots = {**self.texts, **question_slots(self.texts.get("question", ""), shown)}
            if "empty" in when:
                slots |= dict.fromkeys(("narrative", "reason", "evidence"), "")
            slots |= {"shown": bool(shown), "choices": len(shown) > 1, **self.asked}
            yield when, {name: slots[name] for name in variables}, shown

    def _holds(self, text: str, when: str, shown: tuple[Part, ...]) -> None:
        for name in self.prompt.whole:
            if _plain(self.texts[name]) not in text:
                what = f"`{name}`, {self.prompt.variables[name].partition(';')[0]}"
                raise self.wording.error(f"leaves out {what}, or a piece of it{when}")
        for part in shown:
            if _plain(part.text) not in text:
                needed = "`about`, or the text of" if self.prompt.whole else "the text of"
                raise self.wording.error(
                    f"leaves out what is shown of the user (a part of kind {part.kind!r}), or a "
                    f"piece of it{when}; it needs {needed} each of `parts`"
                )

    def _without_labels(self, text: str, slots: dict[str, object], when: str) -> str:
        # Raises unless the responses stand under A and B, in either order.
        first, second = (_plain(self.texts[name]) for name in ("first", "second"))
        swapped = {**slots, "first": slots["second"], "second": slots["first"]}
        other = text.replace(first, "\0").replace(second, first).replace("\0", second)
        if _plain(self.wording.render(swapped, when)) != other:
            raise self.wording.error(
                "shows the responses in one order only: with `first` and `second` exchanged, they "
                "have to change places, and nothing else may"
            )
        for name, planted, label in (("first", first, "A"), ("second", second, "B")):
            before = [*LABEL.finditer(text, 0, text.index(planted))]
            if not before or before[-1][0].upper() != label:
                raise self.wording.error(
                    f"shows `{name}` without its label; {label} has to stand before it, as in "
                    f"`Response {label}:`"
                )
            start, end = before[-1].span()
            text = text[:start] + text[end:]
        return text

    def _asks(self, frame: str) -> None:
        label, judge = self.prompt.label, "first" in self.prompt.variables
        written = rf"{label}\s*[*_]*\s*:"
        if label and self.asked["form"] == "text" and not re.search(written, frame, re.IGNORECASE):
            line = "`Verdict: A` or `Verdict: B`" if judge else "`Rating: N`"
            raise self.wording.error(f"does not ask for the line {line}, all that is read")
        ends = ("A", "B") if judge else (self.asked["low"], self.asked["high"])
        for it in ends if label else ():
            if not re.search(rf"(?<!\w){it}(?!\w)", frame):
                what = (
                    "offers no {}, which a reply may name"
                    if judge
                    else "does not name {}, an end of the scale"
                )
                raise self.wording.error(what.format(it))


@cache
def _planted(name: str) -> str:
    """Return a long text with marks that a filter would change, in which no label stands."""
    words = [f"{name}{k}" for k in range(PLANTED_WORDS)]
    lines = [" ".join(words[k : k + 40]) for k in range(0, PLANTED_WORDS, 40)]
    body = "\n\n".join(lines)
    return f'{name}-begins: <i>tea</i> & "milk", it\'s {{{{ hot }}}}.\n{body}\n{name}-ends'


def _plain(text: str) -> str:
    return " ".join(text.split())
