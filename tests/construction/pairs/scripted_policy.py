"""A policy that writes what a function says of a prompt and a number; no model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from palate.answers import MissingSamples
from palate.engines import Reply


class ScriptedPolicy:
    """Remembers each (prompt, number) that it was asked."""

    def __init__(self, answer: Callable[[str, int], str | Reply], name: str = "scripted") -> None:
        self.spec = self.fingerprint = name
        self.answer = answer
        self.asked: list[tuple[str, int]] = []

    def draw(self, wanted: Sequence[MissingSamples]) -> Iterator[tuple[int, int, Reply]]:
        for k, missing in enumerate(wanted):
            text = "\n\n".join(message.content for message in missing.prompt)
            for number in missing.numbers:
                self.asked.append((text, number))
                reply = self.answer(text, number)
                yield k, number, Reply(reply) if isinstance(reply, str) else reply
