"""A language model that writes texts of users, greedily."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from palate.engines import LanguageModel, Reply
from palate.prompts import fitting_parts
from palate.records import Message, Part, Settings
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec

Messages = tuple[Message, ...]
Parts = tuple[Part, ...]
MAX_TOKENS = 128
"""Tokens of a text, unless `?max_tokens=` says otherwise."""


class Writer(NamedTuple):
    """Who writes, and how many tokens at most."""

    model: LanguageModel
    max_tokens: int

    @property
    def fingerprint(self) -> str:
        """Hash of all that a text depends on beside the prompt."""
        return digest(self.model.place, *self.model.identity, self.max_tokens)

    def fit(self, parts: Parts, prompt: Callable[[Parts], Messages]) -> Parts:
        """Drop whole parts, the lowest-ranked first, until prompt and reply fit the window."""
        window = self.model.window
        room = None if window is None else window - self.max_tokens
        return fitting_parts(parts, lambda some: self.model.count(prompt(some)) or 0, room)

    def write(self, prompts: Sequence[Messages]) -> Iterator[tuple[int, Reply]]:
        """Yield (position, reply) as they come; what all prompts begin with is read once."""
        for _, k, reply in self.model.generate([prompts], max_tokens=self.max_tokens):
            yield k, reply


def build_writer(
    spec: Spec, session: Session, settings: Settings, example: str, options: set[str]
) -> Writer:
    """Return who writes for this spec; refuses options that it does not know.

    `max_tokens` is among `options`, read with the default of its caller.
    """
    max_tokens = spec.number("max_tokens", MAX_TOKENS, least=1)
    return Writer(session.language_model(spec, settings, options, example), max_tokens)
