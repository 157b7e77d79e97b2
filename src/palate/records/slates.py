"""The slate, which is all that a scorer sees, its scores or judgement, and a pair's verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import field_validator

from palate.errors import UsageError
from palate.records.questions import Message, Record
from palate.seeding import digest, shuffled
from palate.words import shortened

PartKind = Literal["post", "turn", "plan", "persona", "example", "aspect", "trait"]
ROUNDS_TO_ZERO = 2.0**-150
"""The largest number that float32 rounds to 0: half of its smallest, and a half goes to even."""


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


class Outcome(StrEnum):
    """The four ends of a judgement."""

    CHOSEN = "chosen"
    REJECTED = "rejected"
    TIE = "tie"
    UNSCORED = "unscored"

    @property
    def credit(self) -> float:
        """1 for chosen, ½ for a tie, 0 for rejected, NaN for unscored."""
        return {"chosen": 1.0, "tie": 0.5, "rejected": 0.0}.get(str(self), float("nan"))


def _unless_empty(items: tuple[object, ...]) -> tuple[object, ...]:
    return items if any(items) else ()


class Scores(Record):
    """One number per candidate of a slate, or `None` with the reason."""

    values: tuple[float | None, ...]
    reasons: tuple[str | None, ...] = ()
    """Why a candidate is unscored, in the order of `values`; empty if all are scored."""
    raw: tuple[str | None, ...] = ()
    """The raw replies behind the numbers, where there were any."""
    split: tuple[bool, ...] = ()
    """Where a text behind the number was longer than the model's window and had to be split."""
    outage: bool = False
    """Unscored because the outside world failed: tried again at the next call."""

    _dropped = field_validator("reasons", "raw", "split")(_unless_empty)

    @classmethod
    def of(
        cls, values: Iterable[float | None], reasons: Iterable[str | None], *, outage: bool = False
    ) -> Scores:
        """Return these numbers, `None` with its reason where there is none."""
        return cls(values=tuple(values), reasons=tuple(reasons), outage=outage)

    @classmethod
    def unscored(cls, n: int, reason: str, *, outage: bool = False) -> Scores:
        """Return `n` times `None`, for one reason.

        >>> Scores.unscored(2, "too long").reasons
        ('too long', 'too long')
        """
        return cls(values=(None,) * n, reasons=(reason,) * n, outage=outage)

    def reason(self, position: int) -> str | None:
        """Return why the candidate at this position is unscored, if it is."""
        return self.reasons[position] if self.reasons else None


class Judgement(Record):
    """What a judge thinks of the two candidates of a slate.

    `margin` is positive where the first candidate is preferred; for a judge that saw both orders it
    is the mean of `orders`. Orders that disagree are a tie, an order that is missing makes it
    unscored.
    """

    margin: float | None
    orders: tuple[float | None, ...] = ()
    raw: tuple[str | None, ...] = ()
    reason: str | None = None
    outage: bool = False

    _dropped = field_validator("raw")(_unless_empty)

    @property
    def votes_disagree(self) -> bool:
        """True where both orders were read and they prefer different responses."""
        read = [sign(order) for order in self.orders if order is not None]
        return len(set(read)) > 1

    def verdict(self, chosen_position: int) -> Verdict:
        """Return the verdict on the pair whose chosen response stands at this position.

        >>> Judgement(margin=0.7).verdict(0).outcome, Judgement(margin=0.7).verdict(1).outcome
        (<Outcome.CHOSEN: 'chosen'>, <Outcome.REJECTED: 'rejected'>)
        >>> Judgement(margin=0.5, orders=(1.2, -0.2)).verdict(0).outcome
        <Outcome.TIE: 'tie'>
        """
        if self.margin is None or None in self.orders:
            return Verdict(outcome=Outcome.UNSCORED, reason=self.reason or "no margin")
        if math.isnan(self.margin):
            return Verdict(outcome=Outcome.UNSCORED, reason="not a number")
        side = 1.0 if chosen_position == 0 else -1.0
        orders = tuple(None if order is None else side * order for order in self.orders)
        vote = 0 if self.votes_disagree else sign(side * self.margin)
        outcome = (Outcome.TIE, Outcome.CHOSEN, Outcome.REJECTED)[vote]
        return Verdict(outcome=outcome, margin=side * self.margin + 0.0, orders=orders)


class Verdict(Record):
    """How a judge stands to one pair: the outcome and the margin of chosen over rejected."""

    outcome: Outcome
    margin: float | None = None
    orders: tuple[float | None, ...] = ()
    reason: str | None = None
    share: float | None = None
    """Of a mean over several verdicts: the share that chosen won."""

    @classmethod
    def of_share(cls, share: float) -> Verdict:
        """Return the verdict in which chosen won this share: the outcome says on which side of ½.

        >>> Verdict.of_share(0.75).outcome, Verdict.of_share(0.5).outcome
        (<Outcome.CHOSEN: 'chosen'>, <Outcome.TIE: 'tie'>)
        """
        if share == 0.5:
            return cls(outcome=Outcome.TIE, share=share)
        return cls(outcome=Outcome.CHOSEN if share > 0.5 else Outcome.REJECTED, share=share)

    @property
    def value(self) -> float:
        """The share where there is one; else 1, ½, 0, and NaN for unscored."""
        return self.outcome.credit if self.share is None else self.share


def candidate_order(question: str, responses: Iterable[str], seed: int) -> tuple[str, ...]:
    """Return responses in an order that says nothing of which was chosen.

    Drawn from hash(seed, question, sorted responses): never from the user or what is shown, so the
    two halves of a mirrored couple see the same order.

    >>> candidate_order("q", ("a", "b"), 0) == candidate_order("q", ("b", "a"), 0)
    True
    """
    texts = sorted(responses)
    return tuple(shuffled(texts, "order", seed, question, *texts))


def sign(margin: float) -> int:
    """Return 1, 0 or -1; a margin that is 0 in float32 is a tie.

    >>> sign(1e-44), sign(1e-46), sign(-0.5), sign(float("nan"))
    (1, 0, -1, 0)
    """
    return int(margin > ROUNDS_TO_ZERO) - int(margin < -ROUNDS_TO_ZERO)


def margin_of(first: float, second: float) -> float:
    """Return first − second, exactly 0 where the two are equal as float32.

    >>> margin_of(1.0, 1.0 + 1e-9), margin_of(2.0, 1.0)
    (0.0, 1.0)
    """
    with np.errstate(over="ignore"):
        return 0.0 if np.float32(first) == np.float32(second) else first - second
