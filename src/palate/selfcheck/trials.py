"""One world through the same code that a real run goes through: rows → verdicts → summary, gain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from palate.comparison.gains import gain
from palate.evaluation import summarise
from palate.records import Judgement
from palate.runs import Gain, Run, Summary, VerdictRow, Verdicts
from palate.selfcheck.contestants import margins, scales
from palate.selfcheck.worlds import Floats, World

GAINS = (("knows", "hazy"), ("hazy", "vague"))
"""What is compared with what; the second is a gain of nothing."""


@dataclass(frozen=True)
class Tools:
    """What is under test; tests put broken ones in."""

    summarise: Callable[..., Summary] = summarise
    gain: Callable[[Run, Run, Gain], Gain] = gain


@dataclass(frozen=True)
class Trial:
    """What was found in one world, by name of scorer and of (scorer, other)."""

    summaries: Mapping[str, Summary]
    gains: Mapping[tuple[str, str], Gain]


def run_trial(world: World, seed: int, number: int, tools: Tools | None = None) -> Trial:
    """Measure every scorer in a world.

    >>> from palate.selfcheck.worlds import mirrored_world
    >>> trial = run_trial(mirrored_world(0, 0), 0, 0)
    >>> found = trial.summaries["blind"].accuracy
    >>> found.value, found.low, found.high
    (0.5, 0.5, 0.5)
    """
    tools = tools or Tools()
    runs: dict[str, Run] = {}
    for scorer, of_chosen in margins(world, seed, number).items():
        if scorer == "confident" and not world.mirrored:
            continue  # its verdicts are those of `blind`, and only on mirrors is there a shift
        scaled = scales(world) if scorer == "confident" else None
        verdicts = planted_verdicts(world, of_chosen)
        runs[scorer] = Run(_summary(tools, scorer, verdicts, scaled), verdicts)
    gains = {}
    for ours, theirs in GAINS:
        base = Gain(
            benchmark="planted", scorer=ours, context="none", kind="gain", against=theirs
        )  # fmt: skip
        gains[ours, theirs] = tools.gain(runs[ours], runs[theirs], base)
    return Trial({name: run.summary for name, run in runs.items()}, gains)


def planted_verdicts(world: World, of_chosen: Floats) -> Verdicts:
    """Return verdicts as `evaluate` would write them for these margins."""
    return Verdicts(_row(world, k, margin) for k, margin in enumerate(of_chosen.tolist()))


def _row(world: World, k: int, margin: float) -> VerdictRow:
    verdict = Judgement(margin=margin).verdict(0)
    longer = int(50 * abs(world.differences[k, 0]))
    asked = k if world.partners is None else min(k, int(world.partners[k]))
    chosen_longer = world.sides[k] * world.differences[k, 0] > 0
    return VerdictRow(
        id=f"row {k}",
        content=str(k),
        question=f"question {asked}",
        responses=(f"chosen {k}", f"rejected {k}"),
        user=str(world.names[world.who[k]]),
        subset="all",
        mirror_of=None if world.partners is None else f"row {world.partners[k]}",
        outcome=verdict.outcome,
        margin=verdict.margin,
        own_words=1,
        lengths=(500 + longer, 500) if chosen_longer else (500, 500 + longer),
    )


def _summary(tools: Tools, scorer: str, verdicts: Verdicts, scaled: Floats | None) -> Summary:
    return tools.summarise(
        verdicts, benchmark="planted", scorer=scorer, context="none", scales=scaled
    )
