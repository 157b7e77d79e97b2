"""The checks over many planted worlds, and the bar of each.

The bars of shares are three Monte-Carlo standard errors wide at 500 worlds, and as wide as that
for fewer. Some fifty checks are made, so one seed in ten or so fails one by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from palate.records import Record
from palate.runs import Gain, ReportedEstimate
from palate.selfcheck.planted_scorers import truth
from palate.selfcheck.trials import GAINS, Trial
from palate.selfcheck.worlds import RowKind

Kind = Literal["point interval", "mean error", "coverage", "false alarms", "route"]
Found = ReportedEstimate | Gain
COVERAGE = (0.92, 0.98)
LEVEL = (0.02, 0.08)
ERRORS = 3.0
"""Monte-Carlo standard errors that a mean may be off."""
NEVER = 1.0
"""Deviation of an interval that is not there."""
KNOWING = ("knows", "hazy")


class WorldCheck(Record):
    """One thing that was checked: what came out, and between which bounds it had to lie."""

    kind: Kind
    what: str
    rows: RowKind | Literal["all"]
    worlds: int
    value: float
    low: float
    high: float

    @property
    def ok(self) -> bool:
        """True where the value lies within the bar.

        >>> shown = {"kind": "coverage", "what": "", "rows": "all", "worlds": 9, "value": 0.7}
        >>> WorldCheck(**shown, low=0.9, high=1).ok
        False
        """
        return self.low <= self.value <= self.high


def world_checks(trials: Sequence[Trial], rows: RowKind) -> list[WorldCheck]:
    """Check what was found in worlds of one kind: every scorer is on target and covered.

    On couples the blind ones are exactly at ½, and know no target beside.
    """
    mirrored = rows.startswith("mirrored")

    def accuracy(scorer: str) -> list[Found]:
        return [trial.summaries[scorer].accuracy for trial in trials]

    def shift(scorer: str) -> list[Found]:
        found = (trial.summaries[scorer].concordance for trial in trials)
        return [figure for figure in found if figure is not None]

    checks = []
    if mirrored:
        checks += [
            point("blind: accuracy", accuracy("blind"), rows),
            point("blind: concordance", shift("blind"), rows),
        ]
    if rows == "mirrored":
        checks += [
            point("confident blind: accuracy", accuracy("confident")),
            point("confident blind: concordance, scaled by user", shift("confident")),
        ]
    planted = {s: truth(s, mirrored=mirrored) for s in ("blind", *KNOWING, "vague")}
    scorers = KNOWING if mirrored else ("blind", *KNOWING)
    targets = [(f"{s}: accuracy", accuracy(s), planted[s]) for s in scorers]
    if mirrored:
        targets.append(("knows: concordance", shift("knows"), planted["knows"]))
    gains = {f"{a} − {b}": [trial.gains[a, b] for trial in trials] for a, b in GAINS}
    for (a, b), (name, found) in zip(GAINS, gains.items(), strict=True):
        targets.append((f"{name}: gain", list(found), planted[a] - planted[b]))
    checks += [mean_error(*target, rows) for target in targets]
    checks += [coverage(*target, rows) for target in targets]
    *_, (idle, of_nothing) = gains.items()
    return [*checks, false_alarms(f"{idle}: p of no gain", of_nothing, rows)]


def point(what: str, estimates: Sequence[Found], rows: RowKind = "mirrored") -> WorldCheck:
    """Largest distance of a value or an end of its interval from 1/2; the bar is 0.

    >>> point("", [ReportedEstimate(value=0.5, low=0.5, high=0.5, n=9)]).ok
    True
    >>> point("", [ReportedEstimate(value=0.5, low=0.4, high=0.6, n=9)]).ok
    False
    """
    ends = [end for one in estimates for end in (one.value, one.low, one.high)]
    off = max((NEVER if end is None else abs(end - 0.5) for end in ends), default=NEVER)
    return WorldCheck(
        kind="point interval", what=what, rows=rows, worlds=len(estimates), value=off, low=0, high=0
    )


def mean_error(what: str, found: Sequence[Found], planted: float, rows: RowKind) -> WorldCheck:
    """Mean over worlds of value − truth; the bar is three of its Monte-Carlo standard errors."""
    errors = np.array([np.nan if one.value is None else one.value - planted for one in found])
    there = errors[~np.isnan(errors)]
    bar = ERRORS * float(there.std(ddof=1)) / math.sqrt(there.size) if there.size > 1 else 0.0
    value = float(there.mean()) if there.size else NEVER
    return WorldCheck(
        kind="mean error", what=what, rows=rows, worlds=there.size, value=value, low=-bar, high=bar
    )


def coverage(what: str, found: Sequence[Found], planted: float, rows: RowKind) -> WorldCheck:
    """Share of worlds whose 95 % interval holds the truth; no interval holds nothing."""
    held = [
        one.low is not None and one.high is not None and one.low <= planted <= one.high
        for one in found
    ]
    return _share("coverage", what, held, 0.95, COVERAGE, rows)


def false_alarms(what: str, gains: Sequence[Gain], rows: RowKind) -> WorldCheck:
    """Share of worlds in which a gain of nothing has p < 0.05."""
    alarms = [one.p is not None and one.p < 0.05 for one in gains]
    return _share("false alarms", what, alarms, 0.05, LEVEL, rows)


def _share(
    kind: Kind,
    what: str,
    held: Sequence[bool],
    nominal: float,
    bar: tuple[float, float],
    rows: RowKind,
) -> WorldCheck:
    """Share of worlds in which something held; the bar is widened by the noise of so few."""
    noise = ERRORS * math.sqrt(nominal * (1 - nominal) / len(held))
    return WorldCheck(
        kind=kind,
        what=what,
        rows=rows,
        worlds=len(held),
        value=float(np.mean(held)),
        low=max(0.0, min(bar[0], nominal - noise)),
        high=min(1.0, max(bar[1], nominal + noise)),
    )
