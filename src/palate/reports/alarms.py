"""Alarms in words: what a cell's numbers show, what that usually means, and how to look."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence

from palate.contexts import shows
from palate.metrics.alarms import Alarm, of_users
from palate.reports.names import context_name
from palate.runs import Run
from palate.scorers import is_baseline

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
        shown = (verdicts.own_words > 0) & ~(verdicts.margins != verdicts.margins)
        for other in () if name.startswith(READ_CHOICES) else runs:
            same_rows = run.cell[:2] == other.cell[:2] and verdicts.same_rows(other.verdicts)
            if same_rows and shows(other.summary.context) != "user" and not other.summary.alarms:
                equal = [*of_users(verdicts.margins[shown], other.verdicts.margins[shown])]
                if equal and equal[0].check == "blind":
                    yield run, equal[0]
                    break


def fact_and_meaning(alarm: Alarm) -> list[str]:
    """Return what an alarm counted, and what that usually means."""
    return [text.format(**vars(alarm)) for text in WORDS[alarm.check]]


def alarm_lines(runs: Sequence[Run], scorer_name: Callable[[str], str]) -> Iterator[str]:
    """Yield a line for each scorer and check, then the command that shows what a scorer read."""
    listed: dict[tuple[str, str], list[tuple[Run, Alarm]]] = {}
    for run, alarm in alarms_of(runs):
        listed.setdefault((run.summary.scorer, alarm.check), []).append((run, alarm))
    for (scorer, _), cells in listed.items():
        contexts = ", ".join(dict.fromkeys(context_name(run.summary.context) for run, _ in cells))
        fact, meaning = fact_and_meaning(max((a for _, a in cells), key=lambda a: a.n / a.of))
        name = scorer_name(scorer) + f", {contexts}" * (len(cells) < 3)
        yield f"{name}: {fact}; usually {meaning}."
    for cells in [*listed.values()][:1]:
        words = zip(("-b", "-s", "-c"), map(shlex.quote, cells[-1][0].cell), strict=True)
        yield f"look: palate show {' '.join(' '.join(pair) for pair in words)}"
