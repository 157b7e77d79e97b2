"""Who writes texts of users: a language model in this process, or a chat endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Protocol

from palate.engines import Ask, ChatEndpoint, Reader, Reply, generate, load_local
from palate.prompts import fitting_parts
from palate.records import Message, Part, Settings
from palate.seeding import digest
from palate.specs import Reference, Spec

Messages = tuple[Message, ...]
Parts = tuple[Part, ...]
MAX_TOKENS = 128
"""Tokens of a text, unless `?max_tokens=` says otherwise."""


class Writer(Protocol):
    """Answers prompts with texts, greedily."""

    fingerprint: str
    """Hash of all that a text depends on beside the prompt."""
    max_tokens: int

    def fit(self, parts: Parts, prompt: Callable[[Parts], Messages]) -> Parts:
        """Return the parts that fit the model's window, a reply included."""

    def write(self, prompts: Sequence[Messages]) -> Iterator[tuple[int, Reply]]:
        """Yield (position, reply) as they come."""


def build_writer(spec: Spec, settings: Settings, example: str, options: set[str]) -> Writer:
    """Return who writes for this spec; refuses options that it does not know.

    `max_tokens` is among `options`, read with the default of its caller.
    """
    reference = Reference.parse(spec.need_reference(example))
    max_tokens = spec.number("max_tokens", MAX_TOKENS, least=1)
    if reference.place != "api":
        spec.only(options)
        return LocalWriter(reference, settings, max_tokens)
    return EndpointWriter(ChatEndpoint.of(spec, reference.name, settings, options), max_tokens)


class LocalWriter:
    """A causal model in this process; what all prompts begin with is read once."""

    def __init__(self, reference: Reference, settings: Settings, max_tokens: int) -> None:
        self.reference, self.settings, self.max_tokens = reference, settings, max_tokens
        self._reader = Reader(reference, settings)
        self.fingerprint = digest("local", *self._reader.weights, max_tokens)

    def fit(self, parts: Parts, prompt: Callable[[Parts], Messages]) -> Parts:
        """Drop whole parts, the lowest-ranked first."""
        window = self._reader.window
        room = None if window is None else window - self.max_tokens
        encode = self._reader.template.prompt
        return fitting_parts(parts, lambda some: len(encode(prompt(some))), room)

    def write(self, prompts: Sequence[Messages]) -> Iterator[tuple[int, Reply]]:
        """Yield replies in turn; a prompt that leaves no room for one is not run."""
        encoded = [self._reader.template.prompt(messages) for messages in prompts]
        limit = (self._reader.window or 10**9) - self.max_tokens
        fits = [k for k, ids in enumerate(encoded) if len(ids) <= limit]
        yield from (
            (k, Reply(failure="too long")) for k, ids in enumerate(encoded) if len(ids) > limit
        )
        if fits:
            model = load_local(self.reference, "causal", self.settings)
            found = generate(model, [encoded[k] for k in fits], self.max_tokens)
            yield from ((fits[n], Reply(text, cut_off)) for n, text, cut_off in found)


class EndpointWriter:
    """A chat endpoint, asked for many texts at once; its window is its own affair."""

    def __init__(self, chat: ChatEndpoint, max_tokens: int) -> None:
        self.chat, self.max_tokens = chat, max_tokens
        settings = chat.settings
        self.fingerprint = digest("endpoint", settings.model, settings.base_url, max_tokens)

    def fit(self, parts: Parts, prompt: Callable[[Parts], Messages]) -> Parts:
        """Cut nothing."""
        del prompt
        return parts

    def write(self, prompts: Sequence[Messages]) -> Iterator[tuple[int, Reply]]:
        """Yield replies as they come."""
        asks = (Ask(messages, self.max_tokens) for messages in prompts)
        with closing(self.chat.ask(asks)) as replies:
            yield from replies
