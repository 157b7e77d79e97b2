"""Does palate find what was planted? Figures and intervals against known truth.

python tools/selfcheck.py [--worlds N] [--seed N] [--format FORM]
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter

import numpy as np
import typer
from planted_trials import (
    Trial,
    WorldCheck,
    planted_rows,
    planted_texts,
    planted_verdicts,
    point,
    run_trial,
    world_checks,
)
from planted_worlds import (
    FEATURES,
    Floats,
    RowKind,
    World,
    confidence,
    margins,
    mirrored_world,
    unmirrored_world,
)

from palate.benchmarks import Dataset
from palate.cli import options as flags
from palate.cli.console import bars, err, show
from palate.cli.declare import flattened, option
from palate.comparison import evaluate
from palate.errors import PalateError, UsageError
from palate.records import PreferencePair, ScorerInfo, Scores, Slate, user_key
from palate.reports import Form, Table
from palate.runs import as_document
from palate.seeding import digest


def check_self(
    worlds: int = option(500, "How many worlds to plant; at least 20."),
    seed: int = flags.SEED,
    form: Form = flags.FORMAT,
) -> None:
    """Check figures and intervals against planted truth."""
    started = time.monotonic()
    with bars() as shown:
        checks = selfcheck(worlds, seed, progress=shown.start("planted worlds"))
    listed = [{**check.model_dump(mode="json"), "ok": check.ok} for check in checks]
    body = {"worlds": worlds, "seed": seed, "checks": listed}
    show([_table(checks, worlds, seed)], form, as_document("selfcheck", body))
    failed = sum(not check.ok for check in checks)
    err.print(f"{len(checks)} checks in {time.monotonic() - started:.0f} s", highlight=False)
    if failed:
        err.print(f"palate: {failed} of {len(checks)} checks failed", style="bold red")
        raise typer.Exit(1)


def _table(checks: Sequence[WorldCheck], worlds: int, seed: int) -> Table:
    rows = [
        [
            check.kind,
            check.what,
            check.rows,
            str(check.worlds),
            _number(check, check.value),
            _bar(check),
            "yes" if check.ok else "NO",
        ]
        for check in checks
    ]
    kinds = [check.kind for check in checks]
    breaks = frozenset(k for k in range(len(kinds) - 1) if kinds[k] != kinds[k + 1])
    columns = ["check", "of", "rows", "worlds", "value", "bar", "ok"]
    notes = [
        "point interval: largest distance from 0.5 of the figure and both ends.",
        "mean error: mean of figure − truth; bar: 3 Monte-Carlo standard errors.",
        "coverage: share of worlds whose 95 % interval holds the truth.",
        "false alarms: share of worlds with p < 0.05 where nothing is gained.",
        "route: rows in which evaluate and the planted margins disagree.",
    ]
    title = f"planted truth: {worlds} worlds, seed {seed}"
    return Table(title, columns, rows, notes, 3, breaks)


def _bar(check: WorldCheck) -> str:
    if check.low == check.high:
        return _number(check, check.low)
    if check.low == -check.high:
        return f"±{_number(check, check.high)}"
    return f"{_number(check, check.low)} to {_number(check, check.high)}"


def _number(check: WorldCheck, value: float) -> str:
    if check.kind == "route":
        return f"{value:.0f}"
    if check.kind == "point interval":
        return f"{value:.3g}"
    digits = 4 if check.kind == "mean error" else 3
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


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


COUPLES, ROWS = 40, 80
JUDGED = attrgetter("id", "user", "question_hash", "response_hashes", "outcome")


class Planted:
    """Scores a response by a weighting of its features: one for all, or one per user key."""

    def __init__(
        self, features: Mapping[str, Floats], weights: Mapping[str | None, Floats]
    ) -> None:
        self._features, self._weights = features, weights
        listed = [(key, weights[key].tolist()) for key in sorted(weights, key=str)]
        self.info = ScorerInfo(
            fingerprint=digest("planted", listed), exact=True, needs_user=None not in weights
        )

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield scores; all that is known of the user is the opaque key in the slate."""
        for k, slate in enumerate(slates):
            weights = self._weights[slate.user]
            found = (float(weights @ self._features[text]) for text in slate.candidates)
            yield k, Scores(values=tuple(found))


def planted_pairs(world: World) -> tuple[Dataset, dict[str, Floats]]:
    """Return a world as pairs, and the features of each response by its text.

    >>> pairs, features = planted_pairs(mirrored_world(0, 0, couples=40))
    >>> len(pairs.pairs), len(features)
    (80, 80)
    """
    features: dict[str, Floats] = {}
    pairs = []
    for k, (user, side) in enumerate(zip(world.who, world.sides.tolist(), strict=True)):
        question, (chosen, rejected) = planted_texts(world, k)
        features[chosen] = side * world.differences[k] / 2
        features[rejected] = -features[chosen]
        pairs.append(
            PreferencePair(
                id=f"row {k}",
                user_id=str(world.names[user]),
                text=question,
                chosen=chosen,
                rejected=rejected,
                mirror_of=None if world.mirror_rows is None else f"row {world.mirror_rows[k]}",
            )
        )
    return Dataset("planted", tuple(pairs), mirrored=world.mirrored), features


def planted_scorers(world: World, features: Mapping[str, Floats]) -> dict[str, Planted]:
    """Return the scorers as scorer objects that read texts and user keys."""
    first = np.eye(FEATURES)[0]
    keys = [user_key(str(name)) for name in world.names]
    weights: dict[str, dict[str | None, Floats]] = {
        "blind": {None: first},
        "confident": {key: k * first for key, k in zip(keys, confidence(world), strict=True)},
        "knows": dict(zip(keys, world.tastes, strict=True)),
    }
    return {name: Planted(features, of_name) for name, of_name in weights.items()}


def route_checks(seed: int) -> list[WorldCheck]:
    """Run one world of each kind through `evaluate`.

    Its verdicts must be those that the other checks start from, row by row; the confident blind
    scorer's shift must be 1/2 by the scales that `evaluate` itself asks for.
    """
    differing = 0
    points: list[WorldCheck] = []
    worlds = [
        *(mirrored_world(seed, 0, couples=COUPLES, shared=shared) for shared in (False, True)),
        *(unmirrored_world(seed, 0, rows=ROWS, shared=shared) for shared in (False, True)),
    ]
    for world in worlds:
        pairs, features = planted_pairs(world)
        rows = planted_rows(world)
        planted = margins(world, seed, 0)
        for name, scorer in planted_scorers(world, features).items():
            run = evaluate(pairs, scorer, "none", root=None, name=f"planted-{name}")
            both = zip(run.verdicts.rows, planted_verdicts(rows, planted[name]).rows, strict=True)
            differing += sum(JUDGED(row) != JUDGED(other) for row, other in both)
            found = {"accuracy": run.summary.accuracy, "concordance": run.summary.concordance}
            if world.rows == "mirrored" and name != "knows":
                points += [
                    point(f"evaluate, {name}: {what}", [figure])
                    for what, figure in found.items()
                    if figure is not None
                ]
    route = WorldCheck(
        kind="route",
        what="evaluate: verdicts unlike the planted",
        rows="all",
        worlds=len(worlds),
        value=differing,
        low=0,
        high=0,
    )
    return [route, *points]


if __name__ == "__main__":
    try:
        typer.run(flattened(check_self))
    except PalateError as error:
        sys.exit(f"selfcheck: {error}")
