"""All checks, over as many worlds as asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from palate.errors import UsageError
from palate.selfcheck.checks import WorldCheck, world_checks
from palate.selfcheck.route import route_checks
from palate.selfcheck.trials import Trial, run_trial
from palate.selfcheck.worlds import RowKind, mirrored_world, unmirrored_world

FEWEST = 20
"""With fewer worlds no bar means anything."""
FEWER = 80
"""Couples, and half the rows, of worlds with shared questions: enough, and quick."""


def selfcheck(
    worlds: int = 500,
    seed: int = 0,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[WorldCheck]:
    """Check palate's figures against planted truth; deterministic for a seed.

    Each world is measured four times: with users in mirrored couples and in unmirrored rows, each
    with questions of their own and with shared ones.

    Raises:
        UsageError: for fewer than 20 worlds.

    >>> all(check.ok for check in selfcheck(worlds=20))
    True
    """
    if worlds < FEWEST:
        raise UsageError(f"{worlds} worlds are too few to judge by; ask for {FEWEST} or more")
    trials: dict[RowKind, list[Trial]] = defaultdict(list)
    for number in range(worlds):
        for world in (
            mirrored_world(seed, number),
            unmirrored_world(seed, number),
            mirrored_world(seed, number, couples=FEWER, shared=True),
            unmirrored_world(seed, number, rows=2 * FEWER, shared=True),
        ):
            trials[world.rows].append(run_trial(world, seed, number))
        progress(number + 1, worlds)
    checks = [check for rows, each in trials.items() for check in world_checks(each, rows)]
    return [*checks, *route_checks(seed)]
