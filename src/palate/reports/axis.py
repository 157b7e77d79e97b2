"""Intervals drawn with characters, all of a table on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from palate.runs import Gain


@dataclass(frozen=True)
class Axis:
    """A line of characters from `low` to `high`; 0 lies on it."""

    NARROWEST: ClassVar[int] = 11
    WIDEST: ClassVar[int] = 19

    low: float
    high: float
    width: int = WIDEST

    @classmethod
    def over(cls, gains: Sequence[Gain | None]) -> Axis | None:
        """Return the axis that holds these gains, in tenths; None where all are 0 or missing."""
        ends = [end for gain in gains if gain for end in (gain.value, gain.low, gain.high)]
        known = [end for end in ends if end is not None]
        if not any(known):
            return None
        low, high = (math.floor(min(0.0, *known) * 10) / 10, math.ceil(max(0.0, *known) * 10) / 10)
        return cls(low, high)

    def header(self) -> str:
        """Return the numbers of its ends and 0, each where it lies.

        >>> Axis(0.0, 0.5, 15).header()
        '0           0.5'
        """
        line = [" "] * self.width
        for value in (0.0, self.high, self.low):
            text = f"{value:g}".replace("-", "−")
            start = min(max(0, self._at(value) - len(text) // 2), self.width - len(text))
            place = slice(start, start + len(text))
            if not "".join(line[max(0, start - 1) : start + len(text) + 1]).strip():
                line[place] = text
        return "".join(line).rstrip()

    def drawn(self, gain: Gain | None) -> str:
        """Return a gain with its interval; without one, the point alone.

        >>> interval = {"low": 0.1, "value": 0.2, "high": 0.4}
        >>> about = {"benchmark": "b", "scorer": "s", "context": "c", "against": "none"}
        >>> Axis(0.0, 0.5, 11).drawn(Gain(kind="gain", **about, **interval))
        '┊ ├─●───┤'
        """
        line = [" "] * self.width
        line[self._at(0.0)] = "┊"
        if gain is None or gain.value is None:
            return "".join(line).rstrip()
        if gain.low is not None and gain.high is not None and gain.low < gain.high:
            first, last = self._at(gain.low), self._at(gain.high)
            line[first : last + 1] = ["─"] * (last + 1 - first)
            line[first], line[last] = "├", "┤"
        line[self._at(gain.value)] = "●"
        return "".join(line).rstrip()

    def _at(self, value: float) -> int:
        return round((value - self.low) / (self.high - self.low) * (self.width - 1))
