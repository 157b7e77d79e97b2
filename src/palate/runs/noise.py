"""The noise of a run, from a second computation of some rows: errors of margins, and flips."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import SerializerFunctionWrapHandler, model_serializer

from palate.metrics.arrays import FloatArray
from palate.metrics.noise import NoisyVerdicts, are_replies, error_sd
from palate.records import Record
from palate.runs.verdicts import Verdicts


class WhereGiven(Record):
    """A record of which some fields are written only where they hold something."""

    where_given: ClassVar[frozenset[str]]

    @model_serializer(mode="wrap")
    def _without_the_rest(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = written(self)
        empty = {name for name in self.where_given if fields.get(name) in (None, (), [])}
        return {name: value for name, value in fields.items() if name not in empty}


class Noise(Record):
    """Rows of a run that were computed twice, and what that says of all of its rows."""

    kind: Literal["rounding", "asking again"]
    """Computed in float32 beside half precision, or asked of an endpoint once more."""
    dtype: str | None = None
    """The half precision: `bfloat16` or `float16`."""
    rows: int = 0
    """Rows scored both times; 0 where that was not asked for or could not be done."""
    sd: float | None = None
    """Standard deviation of a margin's error; None where replies change or do not."""
    flips_seen: int = 0
    """Rows of them whose verdict differs."""
    expected_flips: float | None = None
    """Verdicts expected to differ among all scored rows; docs/statistics.md has the formula."""
    note: str | None = None
    """Why nothing was computed twice."""


def noisy_verdicts(verdicts: Verdicts, again: Verdicts, kind: str) -> NoisyVerdicts:
    """Return a run's verdicts with what some of them became the second time, matched by id."""
    place = {name: k for k, name in enumerate(again.ids)}
    at = np.array([place.get(name, -1) for name in verdicts.ids], dtype=np.int64)
    twice = at >= 0
    twice[twice] = ~np.isnan(again.values[at[twice]]) & ~np.isnan(verdicts.values[twice])
    first, second = verdicts.take(twice), again.take(at[twice])
    errors = (first.votes - second.votes).ravel() if twice.any() else np.zeros(0)
    replies = not verdicts.shared and are_replies(errors)
    known: FloatArray | None = None
    if kind == "rounding":
        known = np.full(len(verdicts), np.nan)
        known[twice] = second.values
    return NoisyVerdicts(
        verdicts.values,
        verdicts.votes,
        None if replies else error_sd(errors) or 0.0,
        n=int(twice.sum()),
        changed=int(np.count_nonzero(np.sign(first.values - 0.5) != np.sign(second.values - 0.5))),
        shares=verdicts.shared,
        known=known,
    )


def noise_of(
    verdicts: Verdicts,
    again: Verdicts,
    kind: Literal["rounding", "asking again"],
    dtype: str | None = None,
) -> Noise:
    """Return what a summary tells of rows that were computed twice."""
    noisy = noisy_verdicts(verdicts, again, kind)
    if not noisy.n:
        return Noise(kind=kind, dtype=dtype, note="no row was scored both times")
    place = {name: k for k, name in enumerate(verdicts.ids)}
    first = verdicts.take([place[name] for name in again.ids])
    sd = error_sd(first.votes.mean(axis=1) - again.votes.mean(axis=1))
    return Noise(
        kind=kind,
        dtype=dtype,
        rows=noisy.n,
        sd=None if noisy.sd is None else sd,
        flips_seen=noisy.changed,
        expected_flips=float(np.nansum(noisy.flips())),
    )
