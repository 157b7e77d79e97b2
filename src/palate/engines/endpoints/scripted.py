"""A chat endpoint without a network: replies come from a function. For tests and dry rehearsals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from palate.engines.endpoints.chat import Ask, Reply


class ScriptedChat:
    """Answers each request by a function of it.

    >>> from palate.records import Message
    >>> chat = ScriptedChat(lambda ask: Reply("Verdict: A"))
    >>> [reply.text for _, reply in chat.ask([Ask((Message(role="user", content="?"),), 8)])]
    ['Verdict: A']
    """

    def __init__(self, answer: Callable[[Ask], Reply]) -> None:
        self.answer = answer
        self.asks: list[Ask] = []

    def ask(self, asks: Sequence[Ask]) -> Iterator[tuple[int, Reply]]:
        """Yield the scripted replies in order."""
        for k, ask in enumerate(asks):
            self.asks.append(ask)
            yield k, self.answer(ask)
