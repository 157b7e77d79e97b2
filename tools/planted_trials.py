"""Planted worlds through the same code as real runs: rows → verdicts → summary, gain; the checks.

The bars of shares are three Monte-Carlo standard errors wide at 500 worlds, and as wide as that
for fewer. Some fifty checks are made, so one seed in ten or so fails one by chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from planted_worlds import Floats, RowKind, World, margins, scales, truth

from palate.comparison.gains import gain
from palate.evaluation import summarise
from palate.records import Judgement, Outcome, Record
from palate.runs import Gain, ReportedEstimate, Run, Summary, VerdictRow, Verdicts

GAINS = (("knows", "hazy"), ("hazy", "vague"))
"""What is compared with what; the second is a gain of nothing."""


@dataclass(frozen=True)
class Trial:
    """What was found in one world, by name of scorer and of (scorer, other)."""

    summaries: Mapping[str, Summary]
    gains: Mapping[tuple[str, str], Gain]


def run_trial(world: World, seed: int, number: int) -> Trial:
    """Measure every scorer in a world.

    >>> from planted_worlds import mirrored_world
    >>> trial = run_trial(mirrored_world(0, 0), 0, 0)
    >>> found = trial.summaries["blind"].accuracy
    >>> found.value, found.low, found.high
    (0.5, 0.5, 0.5)
    """
    rows, runs = planted_rows(world), dict[str, Run]()
    for scorer, of_chosen in margins(world, seed, number).items():
        if scorer == "confident" and world.rows != "mirrored":
            continue  # its verdicts are those of `blind`; its shift on mirrors is checked once
        scaled = scales(world) if scorer == "confident" else None
        verdicts = planted_verdicts(rows, of_chosen)
        summary = summarise(
            verdicts, benchmark="planted", scorer=scorer, context="none", scales=scaled
        )
        runs[scorer] = Run(summary, verdicts)
    gains = {}
    for ours, theirs in GAINS:
        base = Gain(benchmark="planted", scorer=ours, context="none", kind="gain", against=theirs)
        gains[ours, theirs] = gain(runs[ours], runs[theirs], base)
    return Trial({name: run.summary for name, run in runs.items()}, gains)


def planted_rows(world: World) -> list[VerdictRow]:
    """Return the rows of a world as `evaluate` would write them, none of them scored."""
    return [_row(world, k) for k in range(world.who.size)]


def planted_verdicts(rows: Sequence[VerdictRow], of_chosen: Floats) -> Verdicts:
    """Return the verdicts on these rows by their margins."""
    given = (Judgement(margin=margin).verdict(0) for margin in of_chosen.tolist())
    # A copy skips the validation of what has been validated; it takes half of the time.
    return Verdicts(
        row.model_copy(update={"outcome": verdict.outcome, "margin": verdict.margin})
        for row, verdict in zip(rows, given, strict=True)
    )


def planted_texts(world: World, k: int) -> tuple[str, tuple[str, str]]:
    """Return the question of a row, and its chosen and rejected response.

    >>> from planted_worlds import mirrored_world
    >>> world = mirrored_world(0, 0)
    >>> planted_texts(world, 0)[1] == planted_texts(world, 1)[1][::-1]
    True
    """
    first, second = (f"Answer {place} of pair {world.pairs[k]}." for place in ("one", "two"))
    responses = (first, second) if world.sides[k] > 0 else (second, first)
    return f"Question {world.questions[k]}?", responses


hash_of = cache(VerdictRow.hash_of)


def _row(world: World, k: int) -> VerdictRow:
    longer = int(50 * abs(world.differences[k, 0]))
    question, responses = planted_texts(world, k)
    chosen_longer = world.sides[k] * world.differences[k, 0] > 0
    return VerdictRow(
        id=f"row {k}",
        content_hash=str(k),
        question_hash=hash_of(question),
        response_hashes=(hash_of(responses[0]), hash_of(responses[1])),
        user=str(world.names[world.who[k]]),
        subset="all",
        mirror_of=None if world.mirror_rows is None else f"row {world.mirror_rows[k]}",
        outcome=Outcome.UNSCORED,
        margin=None,
        own_words=1,
        lengths=(500 + longer, 500) if chosen_longer else (500, 500 + longer),
    )


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
