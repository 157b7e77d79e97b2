"""All checks, over as many worlds as asked for."""

from __future__ import annotations

from collections.abc import Callable

from palate.errors import UsageError
from palate.selfcheck.checks import Check, mirrored_checks, unmirrored_checks
from palate.selfcheck.route import route_checks
from palate.selfcheck.trials import Tools, run_trial
from palate.selfcheck.worlds import mirrored_world, unmirrored_world

FEWEST = 20
"""With fewer worlds no bar means anything."""


def selfcheck(
    worlds: int = 500,
    seed: int = 0,
    *,
    tools: Tools | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Check]:
    """Check palate's figures against planted truth; deterministic for a seed.

    Each world is measured twice: with users in mirrored couples, and with users in unmirrored
    rows. `tools` is what is under test, palate's own by default.

    Raises:
        UsageError: for fewer than 20 worlds.

    Example:
        >>> all(check.ok for check in selfcheck(worlds=20))
        True
    """
    if worlds < FEWEST:
        raise UsageError(f"{worlds} worlds are too few to judge by; ask for {FEWEST} or more")
    on_couples, on_rows = [], []
    for number in range(worlds):
        on_couples.append(run_trial(mirrored_world(seed, number), seed, number, tools))
        on_rows.append(run_trial(unmirrored_world(seed, number), seed, number, tools))
        progress(number + 1, worlds)
    return [*mirrored_checks(on_couples), *unmirrored_checks(on_rows), *route_checks(seed)]
