"""A question with the turns before it: as messages, for a search, and told from other questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Literal

from palate.records.record import Record
from palate.seeding import digest


class Message(Record):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


def conversation(turns: Iterable[Message], question: str) -> tuple[Message, ...]:
    r"""Return what a model is asked: the turns, and the question as the user's last message.

    Messages of one role in a row are read as one, a blank line between them: many chat templates
    refuse two.

    >>> turns = (Message(role="user", content="Hi."), Message(role="user", content="Tea."))
    >>> conversation(turns, "Which?")
    (Message(role='user', content='Hi.\n\nTea.\n\nWhich?'),)
    """
    messages = *turns, Message(role="user", content=question)
    return tuple(
        Message(role=role, content="\n\n".join(message.content for message in alike))
        for role, alike in groupby(messages, lambda message: message.role)
    )


def of_user(turns: Iterable[Message], question: str) -> str:
    """Return all that the user asks, a line break between messages: what is searched with.

    A last message such as "Shorter, please." does not tell what a conversation is about.

    >>> turns = Message(role="user", content="Tea?"), Message(role="assistant", content="Black?")
    >>> of_user(turns, "No, green.")
    'Tea?\\nNo, green.'
    """
    return "\n".join((*(turn.content for turn in turns if turn.role == "user"), question))


def question_key(turns: Iterable[Message], question: str, form: Callable[[str], str] = str) -> str:
    """Return what tells questions apart: the text, or a hash of it and the turns before it.

    `form` is applied to every text.

    >>> question_key((), "Tea?"), len(question_key([Message(role="user", content="Hi")], "Tea?"))
    ('Tea?', 64)
    """
    before = [(turn.role, form(turn.content)) for turn in turns]
    return digest("conversation", before, form(question)) if before else form(question)
