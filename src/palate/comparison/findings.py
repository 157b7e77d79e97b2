"""What a grid shows of each scorer under each context, in a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from palate.comparison.gains import under, without_draws
from palate.comparison.grid import Grid
from palate.runs import Gain, Run
from palate.scorers import is_baseline

LEVEL = 0.05
Word = Literal["yes", "stranger's", "anyone's", "not shown", "blind", "all ties", "–"]
Key = tuple[str, str, str]


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


def findings_of(grid: Grid) -> list[Finding]:
    """Return a finding for each scorer and context; under one context the largest gain first.

    Oracles are left out. A scorer that only ran shown nothing has a finding without a word.
    """
    runs = {run.cell: run for run in grid.runs if not run.summary.oracle}
    findings: list[Finding] = []
    for key, run in runs.items():
        gains = [g for g in grid.gains if (g.benchmark, g.scorer, g.context) == key]
        of_state = [g for g in gains if g.against.startswith("state=")]
        if not _is_control(key[2]):
            findings.append(_finding(run, [g for g in gains if g not in of_state], runs))
        if of_state:
            findings.append(_finding(run, of_state, runs, of_state=True))
    told = {(f.benchmark, f.scorer) for f in findings}
    compared = {run.cell for f in findings for run in (f.nothing, f.stranger) if run}
    findings += [
        _finding(run, [], runs) for key, run in runs.items()
        if key[:2] not in told and key not in compared
    ]  # fmt: skip
    order = list(dict.fromkeys(run.summary.context for run in grid.runs))
    return sorted(findings, key=lambda f: (f.of_state, order.index(f.context), *_place(f)))


def oracle_runs(grid: Grid) -> list[Run]:
    """Return the runs that were shown gold: upper bounds."""
    return [run for run in grid.runs if run.summary.oracle]


def _finding(
    run: Run, gains: Sequence[Gain], runs: Mapping[Key, Run], *, of_state: bool = False
) -> Finding:
    gain = next((g for g in gains if g.kind == "gain"), None)
    identity = next((g for g in gains if g.kind == "identity"), None)
    shows_nothing = run.summary.context == "none" and not of_state
    return Finding(
        *run.cell,
        run=run,
        nothing=run if shows_nothing else _against(gain, runs),
        stranger=_against(identity, runs),
        gain=gain,
        identity=identity,
        word=_word(run, gain, identity),
        baseline=is_baseline(run.summary.scorer),
        of_state=of_state,
    )


def _against(gain: Gain | None, runs: Mapping[Key, Run]) -> Run | None:
    if gain is None:
        return None
    if not gain.against.startswith("state="):
        return runs.get((gain.benchmark, gain.scorer, gain.against))
    state = gain.against.removeprefix("state=").split("&")[0]
    scorers = [scorer for benchmark, scorer, context in runs
               if (benchmark, context) == (gain.benchmark, gain.context)]  # fmt: skip
    other = next(iter(under(gain.scorer, "state", state, scorers)), None)
    return None if other is None else runs[gain.benchmark, other, gain.context]


def _word(run: Run, gain: Gain | None, identity: Gain | None) -> Word:
    if identity is None or identity.value is None:
        return "–"
    if run.summary.ties == run.summary.n_pairs:
        return "all ties"
    if identity.low == identity.high == 0:
        return "blind"
    if _significant(identity):
        return "yes" if identity.value > 0 else "stranger's"
    if gain is not None and _significant(gain) and (gain.value or 0) > 0:
        return "anyone's"
    return "not shown"


def _significant(gain: Gain) -> bool:
    return gain.p_holm is not None and gain.p_holm < LEVEL


def _is_control(context: str) -> bool:
    spec = without_draws(context)
    return spec is not None and (spec.kind == "none" or spec.options.get("of") == "stranger")


def _place(finding: Finding) -> tuple[bool, float, float]:
    # Scorers before baselines, the largest identity gain first, then the most accurate.
    identity = finding.identity.value if finding.identity else None
    return (
        finding.baseline,
        float("inf") if identity is None else -identity,
        -(finding.run.accuracy or 0.0),
    )
