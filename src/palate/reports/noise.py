"""The noise of figures, of rounding and of asking again, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from palate.comparison import Finding
from palate.comparison.redraws import is_noise
from palate.reports.numbers import plain
from palate.runs import Noise, Summary


def measured(noise: Noise, scored: int) -> str:
    """Return what the rows that were computed twice say of all scored rows.

    >>> noise = Noise(kind="rounding", dtype="bfloat16", rows=16, sd=0.012, expected_flips=3.1)
    >>> measured(noise, 96)
    'bfloat16 moves a margin by 0.012 (sd); 0 of 16 verdicts flip in float32, 3.1 of 96 expected'
    """
    expected = f"{noise.expected_flips or 0.0:.1f} of {scored:,} expected"
    seen = f"{noise.flips_seen:,} of {noise.rows:,} verdicts"
    if noise.kind == "asking again":
        moved = "" if noise.sd is None else f" and moves a margin by {_size(noise.sd)} (sd)"
        return f"asking again changes {seen}{moved}, {expected}"
    moved = "rewrites replies" if noise.sd is None else f"moves a margin by {_size(noise.sd)} (sd)"
    return f"{noise.dtype} {moved}; {seen} flip in float32, {expected}"


def doubts(findings: Sequence[Finding], names: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for findings that noise could turn, and what to do about each kind."""
    rounding = [_doubt(f, names) for f in findings if f.word == "rounding"]
    if rounding:
        yield f"Rounding could turn {', '.join(rounding)}: run it with --dtype float32."
    unsteady = [_doubt(f, names) for f in findings if f.word == "unsteady"]
    if unsteady:
        yield f"Asking again could turn {', '.join(unsteady)}: take more rows, or a steadier judge."


def not_measured(summaries: Iterable[Summary], names: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each reason why rounding in half precision is not known."""
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for summary in summaries:
        noise = summary.noise
        if noise is not None and not noise.rows:
            place = (noise.dtype or noise.kind, noise.note or "")
            reasons.setdefault(place, {})[names[summary.scorer]] = None
    for (what, note), scorers in reasons.items():
        yield f"{', '.join(scorers)}: noise of {what} is not measured: {note}."


def precisions(summaries: Iterable[Summary], names: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each kind of noise: whose it is, and how many verdicts of a run may flip."""
    kinds: dict[str, tuple[dict[str, None], list[float]]] = {}
    for summary in summaries:
        noise = summary.noise
        if noise is not None and noise.rows:
            scorers, flips = kinds.setdefault(noise.dtype or noise.kind, ({}, []))
            scorers[names[summary.scorer]] = None
            flips.append(noise.expected_flips or 0.0)
    for kind, (scorers, flips) in kinds.items():
        most = f"{min(flips):.1f} to {max(flips):.1f}" if len(flips) > 1 else f"{flips[0]:.1f}"
        yield f"{', '.join(scorers)}: {kind} is expected to turn {most} verdicts of a run."


def _doubt(finding: Finding, names: Mapping[str, str]) -> str:
    gain = next(g for g in (finding.identity, finding.gain) if g is not None and is_noise(g))
    kept = f"{100 * (gain.survival or 0.0):.0f} % of redraws keep it"
    return f"{plain(gain.value, signed=True)} ({names[finding.scorer]}, {kept})"


def _size(sd: float) -> str:
    return f"{sd:.2g}"
