"""The finding of each scorer under each context of a grid: a word, with its controls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from palate.comparison.gains import Key, against
from palate.comparison.grid import Grid
from palate.comparison.redraws import is_noise, is_shown
from palate.contexts import same_of, shows
from palate.runs import Gain, Run
from palate.scorers import is_baseline

Word = Literal[
    "yes", "stranger's", "anyone's", "rounding", "unsteady", "not shown", "blind", "all ties", "–"
]


@dataclass(frozen=True)
class Finding:
    """One scorer shown a user's own posts, or given a user's own state."""

    benchmark: str
    scorer: str
    context: str
    run: Run
    nothing: Run | None
    """The same scorer shown nothing, or with the state of nobody."""
    stranger: Run | None
    """The same scorer shown a stranger's, or with a stranger's state."""
    gain: Gain | None
    identity: Gain | None
    word: Word
    baseline: bool
    of_state: bool = False
    """True where states of a personal scorer are compared, not contexts."""

    @property
    def own_run(self) -> Run | None:
        """The run; None where it is the one that was shown nothing."""
        return None if self.run is self.nothing else self.run


def findings_of(grid: Grid) -> list[Finding]:
    """Return a finding for each scorer and context; under one context the largest gain first.

    Oracles are left out. A scorer that only ran shown nothing has a finding without a word.
    """
    shown = ("nobody", "user", "stranger")
    runs = {r.cell: r for r in grid.runs if shows(r.cell[2]) in shown and not r.summary.oracle}
    findings: list[Finding] = []
    for key, run in runs.items():
        gains = [g for g in grid.gains if (g.benchmark, g.scorer, g.context) == key]
        of_state = [g for g in gains if g.state_against is not None]
        if shows(key[2]) == "user":
            findings.append(_finding(run, [g for g in gains if g not in of_state], runs))
        if of_state:
            findings.append(_finding(run, of_state, runs, of_state=True))
    tested = {(f.benchmark, f.scorer) for f in findings}
    compared = {run.cell for f in findings for run in (f.nothing, f.stranger) if run}
    findings += [
        _finding(run, [], runs)
        for key, run in runs.items()
        if key[:2] not in tested and key not in compared and not same_of(run.summary.scorer)
    ]
    order = list(dict.fromkeys(run.summary.context for run in grid.runs))
    return sorted(findings, key=lambda f: (f.of_state, order.index(f.context), *_place(f)))


def oracle_runs(grid: Grid) -> list[Run]:
    """Return the runs that were shown gold: upper bounds."""
    return [r for r in grid.runs if r.summary.oracle and shows(r.summary.context) != "pressure"]


def _finding(
    run: Run, gains: Sequence[Gain], runs: Mapping[Key, Run], *, of_state: bool = False
) -> Finding:
    gain = next((g for g in gains if g.kind == "gain"), None)
    identity = next((g for g in gains if g.kind == "identity"), None)
    nothing, stranger = against(gain, runs), against(identity, runs)
    if shows(run.summary.context) == "nobody" and not of_state:
        nothing = run
    sides, baseline = (run, nothing, stranger), is_baseline(run.summary.scorer)
    word = _word(run, gain, identity, sides)
    return Finding(*run.cell, *sides, gain, identity, word, baseline, of_state)


def _word(run: Run, gain: Gain | None, identity: Gain | None, noisy: Iterable[Run | None]) -> Word:
    if identity is None or identity.value is None:
        return "–"
    if run.summary.ties == run.summary.n_pairs:
        return "all ties"
    if identity.low == identity.high == 0:
        return "blind"
    if is_shown(identity):
        return "yes" if identity.value > 0 else "stranger's"
    better = gain is not None and (gain.value or 0) > 0
    if is_noise(identity) or (better and gain is not None and is_noise(gain)):
        kinds = {run.summary.noise.kind for run in noisy if run and run.summary.noise}
        return "rounding" if "rounding" in kinds else "unsteady"
    return "anyone's" if better and gain is not None and is_shown(gain) else "not shown"


def _place(finding: Finding) -> tuple[bool, float, float]:
    # Scorers before baselines, the largest identity gain first, then the most accurate.
    identity = finding.identity.value if finding.identity else None
    gain = float("inf") if identity is None else -identity
    return finding.baseline, gain, -(finding.run.accuracy or 0.0)
