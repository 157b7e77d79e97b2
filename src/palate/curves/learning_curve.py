"""What more choices are worth: accuracy and shift of personal models against choices per user.

All points of a curve are taken on the same users and the same pairs; a user's k choices are the
first k of one seeded order per repeat, so that more choices only add to fewer. Opposite votes on
the same two responses are coupled, as `--mirrors only` couples them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palate import metrics
from palate.benchmarks import Dataset, couple_votes
from palate.curves.points import Count, Curves, Point
from palate.curves.scoring import Doubles, Learner, Rows, Scored, credit, vectors_of
from palate.errors import UsageError
from palate.evaluation import history_of
from palate.metrics import Clusters, Estimate
from palate.metrics.clusters import compact
from palate.personal import Trained
from palate.records import Choice, Settings, user_key

COUNTS = (0, 1, 2, 5, 10, 20, 50)
REPEATS = 5
REFERENCE = "bradley-terry"
FIXED = 20
"""Users with at least this many choices are on every curve; larger counts have fewer users."""
Progress = Callable[[int, int], None]


def learning_curve(
    models: Mapping[str, Trained],
    pairs: Dataset,
    *,
    counts: Sequence[int] = COUNTS,
    repeats: int = REPEATS,
    fixed: int = FIXED,
    whole: bool = True,
    blind: Mapping[str, ArrayLike] | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Curves:
    """Return the points of every model: each count, and with `whole` all choices a user has.

    `pairs` holds the pairs to be judged right or wrong, and the users' earlier choices in
    `pairs.history`. A personal method is adapted anew for every count and repeat. Where one of the
    models is `bradley-terry`, others of the same vectors and training data have a lead over it.
    `blind` gives, for rows that are told nothing of the user, the credit of every pair (n; NaN
    where there is none): a scorer's (`run.verdicts.values`), or `majority_of_others`.

    Raises:
        UsageError: where no user has as many choices as asked, or for fewer than one repeat.
    """
    if repeats < 1:
        raise UsageError(f"learning curve: {repeats} repeats; expected 1 or more")
    settings, blind = settings or Settings(), blind or {}
    history = history_of(pairs)
    kept, too_long = _rows(models, pairs, history, fixed, settings)
    asked: list[Count] = [*sorted(set(counts) | {0})]
    if whole:
        asked.append("all")
    sets = _Sets(pairs, kept, models, settings.seed)
    found: list[Point] = []
    for name, credits in blind.items():
        own = np.asarray(credits, np.float64)[list(kept.rows)]
        found += _blind_points(name, sets, own)
    done, lost = 0, 0
    references = references_of(models)
    theirs: dict[tuple[str, Count], Scored] = {}
    points: dict[str, list[Point]] = {}
    for name in sorted(models, key=lambda name: name in references):  # what is led over, first
        learner = Learner(models[name], pairs, kept, history, settings)
        lost = max(lost, learner.choices_left_out)
        base = learner.at(0, 1)
        for count in asked:
            scored = base if count == 0 else learner.at(count, repeats)
            if name in references.values():
                theirs[name, count] = scored
            if count in counts or count == "all":
                least = 0 if count == "all" else count
                enough = np.array([len(history[user]) >= least for user in kept.users])
                over = theirs.get((references.get(name, ""), count))
                points.setdefault(name, []).extend(
                    _points(name, sets, scored, base, over, count, enough)
                )
            done += 1
            if progress is not None:
                progress(done, len(models) * len(asked))
    found += [point for name in models for point in points.get(name, ())]
    return Curves(tuple(_corrected(found)), references, too_long, lost)


def references_of(models: Mapping[str, Trained]) -> dict[str, str]:
    """Return, by model, the bradley-terry model of the same vectors and the same training data."""
    plain = {
        (one.meaning, one.facts.get("data")): name
        for name, one in models.items()
        if one.model.method == REFERENCE
    }
    found = {name: plain.get((one.meaning, one.facts.get("data"))) for name, one in models.items()}
    return {name: other for name, other in found.items() if other not in (None, name)}


def _rows(
    models: Mapping[str, Trained],
    pairs: Dataset,
    history: Mapping[str, Sequence[Choice]],
    fixed: int,
    settings: Settings,
) -> tuple[Rows, int]:
    judged = {pair.user_id for pair in pairs.pairs}
    able = {user for user, listed in history.items() if len(listed) >= fixed} & judged
    rows = [k for k, pair in enumerate(pairs.pairs) if pair.user_id in able]
    if not rows:
        raise UsageError(f"{pairs.name}: no user with {fixed} choices or more has a pair to judge")
    usable = np.ones(len(rows), bool)
    for trained in {one.meaning: one for one in models.values()}.values():
        usable &= vectors_of(trained, pairs, rows, settings).whole
    if not usable.any():
        raise UsageError(f"{pairs.name}: every pair has a response too long for an embedder")
    kept = [row for row, fits in zip(rows, usable, strict=True) if fits]
    users = sorted({pairs.pairs[k].user_id for k in kept})
    code = {user: k for k, user in enumerate(users)}
    user = np.array([code[pairs.pairs[k].user_id] for k in kept], np.int64)
    return Rows(tuple(kept), tuple(users), user), len(rows) - len(kept)


class _Sets:
    """Rows, users and couples of the whole, the seen and the unseen."""

    def __init__(
        self, pairs: Dataset, kept: Rows, models: Mapping[str, Trained], seed: int
    ) -> None:
        self.user = kept.user
        judged = [pairs.pairs[row] for row in kept.rows]
        texts = [p.chosen for p in judged], [p.rejected for p in judged]
        questions = [p.text for p in judged]
        self.clusters = Clusters.of(kept.user, questions=questions, texts=texts)
        place = {pairs.pairs[row].id: k for k, row in enumerate(kept.rows)}
        partner = couple_votes(pairs, seed)
        both = [(k, place[partner[a]]) for a, k in place.items() if partner.get(a) in place]
        self.couples = np.array([(a, b) for a, b in both if a < b], np.int64).reshape(-1, 2)
        first = self.clusters.take(self.couples[:, 0])
        a, b = kept.user[self.couples].T
        self.couple_clusters = replace(first, users=compact(a, b))
        self.everybody = np.ones(len(kept.users), bool)
        keys = [user_key(user) for user in kept.users]
        self.seen = {
            name: np.array([key in trained.trained_on for key in keys])
            for name, trained in models.items()
        }

    def groups(self, model: str | None) -> dict[str, NDArray[np.bool_]]:
        """Return the groups of users; a blind row has those that all models agree on."""
        seen = list(self.seen.values()) if model is None else [self.seen[model]]
        found = {"all": self.everybody}
        if seen and seen[0].any() and not seen[0].all() and all((s == seen[0]).all() for s in seen):
            found |= {"seen": seen[0], "unseen": ~seen[0]}
        return found

    def couples_of(
        self, users: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Clusters]:
        """Return both rows of each couple of two such users, and the couples' clusters."""
        inside = users[self.user[self.couples]].all(axis=1)
        a, b = self.couples[inside].T
        return a, b, self.couple_clusters.take(np.flatnonzero(inside))


def _points(
    name: str,
    sets: _Sets,
    scored: Scored,
    base: Scored,
    over: Scored | None,
    count: Count,
    enough: NDArray[np.bool_],
) -> Iterator[Point]:
    for group, members in sets.groups(name).items():
        inside = members & enough
        kept = inside[sets.user]
        if not kept.any():
            continue
        values, clusters = scored.values[kept], sets.clusters.take(np.flatnonzero(kept))
        mirrored = shift = particular = None
        a, b, of_couples = sets.couples_of(inside)
        if len(a):
            both = (scored.values[a] + scored.values[b]) / 2
            mirrored = metrics.clustered_mean(both, of_couples)
            scaled = scored.margins / scored.confidence
            moved = [metrics.shift_values(m[a], -m[b]) for m in scaled]
            shift = metrics.clustered_mean(np.mean(moved, axis=0), of_couples)
            residual = credit(scored.margins - base.margins)
            particular = metrics.clustered_mean((residual[a] + residual[b]) / 2, of_couples)
        point = Point(
            model=name, group=group, choices=count, n_users=int(inside.sum()),
            n_pairs=int(kept.sum()), accuracy=metrics.clustered_mean(values, clusters),
            mirrored=mirrored, shift=shift, particular=particular,
        )  # fmt: skip
        if scored is not base:
            gain, p = _difference(values, base.values[kept], clusters)
            point = point._replace(gain=gain, p=p)
        if over is not None:
            lead, p = _difference(values, over.values[kept], clusters)
            point = point._replace(lead=lead, p_lead=p)
        yield point


def _difference(
    values: Doubles, others: Doubles, clusters: Clusters
) -> tuple[Estimate, float | None]:
    """Return a paired difference and its p: of the t where users share questions."""
    estimate = metrics.paired_difference(values, others, clusters)
    if clusters.items is not None:
        return estimate, estimate.p
    return estimate, metrics.sign_flip_test(values - others, clusters.users[0])


def _blind_points(name: str, sets: _Sets, values: Doubles) -> Iterator[Point]:
    there = ~np.isnan(values)
    for group, members in sets.groups(None).items():
        kept = members[sets.user] & there
        if not kept.any():
            continue
        a, b, of_couples = sets.couples_of(members)
        both = (values[a] + values[b]) / 2
        # Anything else has read the couple's own votes, as the majority of the others has.
        blind = len(a) > 0 and bool((both == 0.5).all())
        yield Point(
            model=name, group=group, choices=None, n_users=len(np.unique(sets.user[kept])),
            n_pairs=int(kept.sum()),
            accuracy=metrics.clustered_mean(values[kept], sets.clusters.take(kept)),
            mirrored=metrics.clustered_mean(both, of_couples) if blind else None,
            shift=None, particular=None,
        )  # fmt: skip


def _corrected(points: Sequence[Point]) -> Iterator[Point]:
    families: dict[tuple[str, Count | None], list[int]] = {}
    for k, one in enumerate(points):
        families.setdefault((one.group, one.choices), []).append(k)
    adjusted: dict[int, float | None] = {}
    for family in families.values():
        corrected = metrics.holm([points[k].p_lead for k in family])
        adjusted.update(zip(family, corrected, strict=True))
    for k, one in enumerate(points):
        yield one._replace(p_lead_holm=adjusted[k])
