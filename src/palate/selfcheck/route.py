"""The whole route once: planted pairs and plug-in scorers through `palate.evaluation.evaluate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

import numpy as np

from palate.benchmarks import Dataset
from palate.evaluation import evaluate
from palate.records import PreferencePair, ScorerInfo, Scores, Slate, user_key
from palate.seeding import digest
from palate.selfcheck.checks import WorldCheck, point
from palate.selfcheck.planted_scorers import confidence, margins
from palate.selfcheck.trials import planted_rows, planted_texts, planted_verdicts
from palate.selfcheck.worlds import FEATURES, Floats, World, mirrored_world, unmirrored_world

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
