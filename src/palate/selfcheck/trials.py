"""One world through the same code that a real run goes through: rows → verdicts → summary, gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from palate.comparison.gains import gain
from palate.evaluation import summarise
from palate.records import Judgement, Outcome
from palate.runs import Gain, Run, Summary, VerdictRow, Verdicts
from palate.selfcheck.planted_scorers import margins, scales
from palate.selfcheck.worlds import Floats, World

GAINS = (("knows", "hazy"), ("hazy", "vague"))
"""What is compared with what; the second is a gain of nothing."""


@dataclass(frozen=True)
class Trial:
    """What was found in one world, by name of scorer and of (scorer, other)."""

    summaries: Mapping[str, Summary]
    gains: Mapping[tuple[str, str], Gain]


def run_trial(world: World, seed: int, number: int) -> Trial:
    """Measure every scorer in a world.

    >>> from palate.selfcheck.worlds import mirrored_world
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

    >>> from palate.selfcheck.worlds import mirrored_world
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
