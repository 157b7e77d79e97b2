"""Scores of a slate, a judgement of two responses, the verdict on a pair."""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np
from pydantic import field_validator

from palate.records.record import Record

ROUNDS_TO_ZERO = 2.0**-150
"""The largest number that float32 rounds to 0: half of its smallest, and a half goes to even."""


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
