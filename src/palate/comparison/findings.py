"""What a grid shows of each scorer under each context, in a word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from palate.comparison.grid import Grid
from palate.runs import Gain, Run
from palate.specs import Spec

LEVEL = 0.05
BASELINES = ("random", "longest", "shortest")
Word = Literal["yes", "stranger's", "anyone's", "not shown", "blind", "all ties", "–"]


@dataclass(frozen=True)
class Finding:
    """One scorer shown a user's own posts, or given a user's own state."""

    benchmark: str
    scorer: str
    context: str
    own: Run
    nothing: Run | None
    stranger: Run | None
    gain: Gain | None
    identity: Gain | None
    word: Word
    baseline: bool


def findings_of(grid: Grid) -> list[Finding]:
    """Return a finding for each scorer and context, the largest identity gain first."""
    runs = {_key(run): run for run in grid.runs if not run.summary.oracle}
    findings: list[Finding] = []
    for key, run in runs.items():
        mine = [g for g in grid.gains if _key(g) == key]
        for of_state in (False, True):
            some = [g for g in mine if g.against.startswith("state=") == of_state]
            if any(g.kind == "identity" for g in some) or (some and not _is_control(run)):
                findings.append(_finding(run, some, runs))
    told = {(f.benchmark, f.scorer) for f in findings}
    compared = {_key(other) for f in findings for other in (f.nothing, f.stranger) if other}
    findings += [
        _finding(run, [], runs)
        for key, run in runs.items()
        if key[:2] not in told and key not in compared
    ]
    contexts = list(dict.fromkeys(run.summary.context for run in grid.runs))
    return sorted(findings, key=lambda f: (contexts.index(f.context), f.baseline, -_value(f)))


def oracle_runs(grid: Grid) -> list[Run]:
    """Return the runs that were shown gold: upper bounds."""
    return [run for run in grid.runs if run.summary.oracle]


def verdict(grid: Grid) -> str:
    """Return one sentence on what the grid shows."""
    findings = [f for f in findings_of(grid) if not f.baseline]
    sure = [f for f in findings if f.word == "yes"]
    if sure:
        parts = [f"{_name(f)} {_value(f):+.3f}" for f in sure]
        return f"A user's own posts help more than a stranger's: {', '.join(parts)}."
    if any(f.identity for f in findings):
        return "No scorer is shown to know whom it is judging for."
    return "No identity gain was asked for."


def _finding(run: Run, gains: Sequence[Gain], runs: dict[tuple[str, str, str], Run]) -> Finding:
    gain = next((g for g in gains if g.kind == "gain"), None)
    identity = next((g for g in gains if g.kind == "identity"), None)
    shows_nothing = run.summary.context == "none" and gain is None and identity is None
    nothing = run if shows_nothing else _against(gain, runs)
    return Finding(
        *_key(run), run, nothing, _against(identity, runs), gain, identity,
        _word(run, gain, identity), run.summary.scorer in BASELINES,
    )  # fmt: skip


def _word(run: Run, gain: Gain | None, identity: Gain | None) -> Word:
    if identity is None or identity.value is None:
        return "–"
    if run.summary.ties == run.summary.n_pairs:
        return "all ties"
    if identity.low == identity.high == identity.value == 0:
        return "blind"
    if identity.p_holm is not None and identity.p_holm < LEVEL:
        return "yes" if identity.value > 0 else "stranger's"
    if gain and gain.p_holm is not None and gain.p_holm < LEVEL and (gain.value or 0) > 0:
        return "anyone's"
    return "not shown"


def _against(gain: Gain | None, runs: dict[tuple[str, str, str], Run]) -> Run | None:
    if gain is None:
        return None
    scorer, context = gain.scorer, gain.against
    if gain.against.startswith("state="):
        options = dict(part.split("=", 1) for part in gain.against.split("&"))
        spec = Spec.parse(scorer)
        changed = {**spec.options, **options}
        scorer, context = str(spec.model_copy(update={"options": changed})), gain.context
    return runs.get((gain.benchmark, scorer, context))


def _is_control(run: Run) -> bool:
    return "stranger" in run.summary.context


def _key(of: Run | Gain) -> tuple[str, str, str]:
    told = of.summary if isinstance(of, Run) else of
    return told.benchmark, told.scorer, told.context


def _value(finding: Finding) -> float:
    return (finding.identity.value if finding.identity else None) or 0.0


def _name(finding: Finding) -> str:
    return finding.scorer.partition(":")[0]
