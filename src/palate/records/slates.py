"""The slate: all that a scorer ever sees."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Literal

from palate.errors import UsageError
from palate.records.conversations import Message
from palate.records.record import Record
from palate.seeding import digest, shuffled
from palate.words import shortened

PartKind = Literal["post", "turn", "plan", "persona", "example", "aspect"]


class Part(Record):
    """One piece of text about the user that a context chose to show."""

    kind: PartKind
    """`turn`: a post that is shown as an earlier turn of the conversation."""
    text: str
    category: str = ""
    rank: int = 0
    """0 is the most relevant; the highest rank is dropped first where the window is short."""


class Slate(Record):
    """A question, what is shown of the user, and one or more candidate responses.

    `user` is an opaque key and set only for scorers that declare `needs_user`; `excluded` holds the
    keys of who is no third user of the row, and only where third users' states are read.
    """

    question: tuple[Message, ...]
    shown: tuple[Part, ...] = ()
    candidates: tuple[str, ...]
    user: str | None = None
    excluded: tuple[str, ...] = ()

    @cached_property
    def id(self) -> str:
        """Return the content hash; not unique in a benchmark, so never a row's key."""
        return digest(self.prompt_key, self.candidates)

    @cached_property
    def prompt_key(self) -> str:
        """Return the hash of all that the candidates share: question, shown, user, excluded."""
        return digest(
            [(m.role, m.content) for m in self.question],
            [(p.kind, p.category, p.text, p.rank) for p in self.shown],
            self.user,
            *((self.excluded,) if self.excluded else ()),
        )

    def without_context(self) -> Slate:
        """Return the slate with nothing shown.

        >>> part = Part(kind="post", text="I cook on an open fire.")
        >>> question = (Message(role="user", content="Dinner?"),)
        >>> slate = Slate(question=question, shown=(part,), candidates=("Stew.", "Sushi."))
        >>> slate.without_context().shown, slate.without_context().id == slate.id
        ((), False)
        """
        return self.replace(shown=()) if self.shown else self

    def need_two(self) -> None:
        """Raise `UsageError` where there is no second response for a judge to compare."""
        if len(self.candidates) < 2:
            question = shortened(" ".join(self.question[-1].content.split()), 60)
            raise UsageError(f"a judge compares two responses; {question!r} has one")

    def replace(self, **changes: object) -> Slate:
        """Return a validated copy with these fields changed."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate({**fields, **changes})


def candidate_order(question: str, responses: Iterable[str], seed: int) -> tuple[str, ...]:
    """Return responses in an order that says nothing of which was chosen.

    Drawn from hash(seed, question, sorted responses): never from the user or what is shown, so the
    two halves of a mirrored couple see the same order.

    >>> candidate_order("q", ("a", "b"), 0) == candidate_order("q", ("b", "a"), 0)
    True
    """
    texts = sorted(responses)
    return tuple(shuffled(texts, "order", seed, question, *texts))
